/** A file's name as it is passed on: what the user called it, without a folder to lead out of and without controls. */

// oxlint-disable-next-line eslint/no-control-regex -- they are what is looked for
const controls = /[\0-\u001f\u007f]/g

/** RFC 7578, 4.2: no receiver should follow the folders of a name. Both separators count, whoever runs the backend. */
export const baseName = (name: string): string => name.replaceAll(controls, "").replace(/^.*[/\\]/s, "")
