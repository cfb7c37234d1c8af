/** The text of a task, as the events of its stream change it. Without code of others, because it is part of the small client. */
import type { TextEvent } from "./Types.ts"

export class LiveText {
  text = ""
  #beginning = 0

  /** Returns what an event adds, and whether the text is another one. A part that is known already adds nothing. */
  take({ offset, replaced, text }: TextEvent): { readonly added: string; readonly isOther: boolean } {
    if (replaced === true || offset > this.#beginning + this.text.length || offset < this.#beginning) {
      const before = this.text
      const isSame = offset === this.#beginning && text.startsWith(before)
      this.text = text
      this.#beginning = offset
      return isSame ? { added: text.slice(before.length), isOther: false } : { added: text, isOther: before !== "" }
    }
    const added = text.slice(this.#beginning + this.text.length - offset)
    this.text += added
    return { added, isOther: false }
  }
}
