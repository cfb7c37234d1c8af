/** What the errors of one cause have in common: the text without ids, numbers, quoted parts and addresses. */

/** Stands for a part that differs from one failure to the next. */
const part = "…"

const quoted = /"[^"]*"|`[^`]*`|“[^”]*”|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu
/** Words and what joins the pieces of an id, of an address and of an email address. */
const word = /[\p{L}\p{N}_@+-]+(?:[.,][\p{L}\p{N}_@+-]+)*/gu
const isVariable = /[\p{N}@]/u
const neighbours = /…(?:[.,:/-]*…)+/g

export const of = (error: string): string =>
  error.replace(quoted, part).replace(word, (found) => isVariable.test(found) ? part : found).replace(neighbours, part)

/** The pattern of `LIKE` for errors of a fingerprint. */
export const patternOf = (fingerprint: string): string => fingerprint.replace(/[\\%_]/g, "\\$&").replaceAll(part, "%")
