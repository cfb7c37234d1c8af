/** Returns a function that compares a text with the previous one: undefined when there is none or it has not changed. */
export const textChanges = () => {
  let last = ""
  return (text: string | undefined): { readonly text: string; readonly delta: string | undefined } | undefined => {
    if (text === undefined || text === "" || text === last) return undefined
    const delta = text.startsWith(last) ? text.slice(last.length) : undefined
    last = text
    return { text, delta }
  }
}
