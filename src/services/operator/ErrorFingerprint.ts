/**
 * The part that errors of one cause share: the text without ids, numbers, times, addresses and long quotes. Codes of status and error
 * stay, and so do the words of a short name in quotes, such as that of a tool or a model: they tell causes apart.
 */

/** Stands for a part that differs from one failure to the next. */
const part = "…"

/** A quote, or a word with what joins the pieces of an id, of an address and of an email address. */
const pieces =
  /"[^"]*"|`[^`]*`|“[^”]*”|(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])|[\p{L}\p{N}_@+-]+(?:[.,][\p{L}\p{N}_@+-]+)*/gu
const isQuote = /^["`“']/u
/** A name without spaces that is not that of a file. */
const isName = /^\p{L}[\p{L}\p{N}_.:/-]{0,39}$/u
const isFile = /\.\p{L}[\p{L}\p{N}]{1,4}$/u
const isVariable = /[\p{N}@]/u
const isHex = /^[\da-f.:_/-]+$/i
/** Words that the name of one of many follows. */
const oneOfMany =
  /\b(?:user|customer|account|person|member|owner|sub|subject|email|order|id|uuid|key|file|document|folder|path|title|chat|session|run|task|request)s?:? $/i
const variableWords = /[\p{L}\p{N}]*\p{N}[\p{L}\p{N}]*/gu
const neighbours = /…(?:[.,:/-]*…)+/g

const isStatus = /^[45]\d\d$/
const unit =
  /^[ \u00a0]?(?:%|[mµ]?s\b|sec|min|hour|day|time|token|character|byte|[kKMG]?i?B\b|row|item|page|file|request)/
/** Words that a status follows if it neither begins the error nor has a reason phrase. */
const statusFollows = /(?:^|\b(?:error|answered|returned|responded|replied|failed|with|got)[ :(]{1,2})$/i
const reasonPhrase = /^ [A-Z][a-z]/
/** Words that a code of any form follows. */
const codeFollows = /\b(?:http|status|code|sqlstate|errno|signal)["']?[ :=#(]{1,2}$/i
const isCode = /^[A-Z0-9_-]{1,12}$/
/** A code of the operating system, such as `E2BIG`. */
const isErrno = /^E\d?[A-Z]+$/

const nameOf = (quote: string, before: string): string => {
  const name = quote.slice(1, -1)
  if (!isName.test(name) || isFile.test(name) || oneOfMany.test(before)) return part
  if (isVariable.test(name) && isHex.test(name)) return part
  const words = name.replace(variableWords, part).replace(neighbours, part)
  return words === part ? part : `${quote[0]}${words}${quote.at(-1)}`
}

const isKept = (word: string, before: string, after: string): boolean =>
  !isVariable.test(word) || isErrno.test(word) || (isCode.test(word) && codeFollows.test(before)) ||
  (isStatus.test(word) && !unit.test(after) && (statusFollows.test(before) || reasonPhrase.test(after)))

export const of = (error: string): string =>
  error.replace(pieces, (found: string, at: number) => {
    const before = error.slice(Math.max(0, at - 16), at)
    if (isQuote.test(found)) return nameOf(found, before)
    const end = at + found.length
    return isKept(found, before, error.slice(end, end + 12)) ? found : part
  }).replace(neighbours, part)

/** The pattern of `LIKE` for errors of a fingerprint. */
export const patternOf = (fingerprint: string): string => fingerprint.replace(/[\\%_]/g, "\\$&").replaceAll(part, "%")
