/** Prints and finds the generated parts of Markdown pages. */
export const list = (items: ReadonlyArray<string>) => items.map((item) => `- ${item}`).join("\n")

/** A marked part of a page: between `<!-- name -->` and `<!-- /name -->`. */
export const partOf = (name: string) => new RegExp(`(<!-- ${name} -->\\n)([\\s\\S]*?)(\\n?<!-- /${name} -->)`)
