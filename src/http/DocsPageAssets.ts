/** The styles of the page of a document, and its script, which runs in the browser. */
export const styles = `
:root { color-scheme: light dark; --ink: light-dark(#17171c, #ececf0); --quiet: light-dark(#5d5d68, #a1a1ac); --page: light-dark(#f7f7f8, #0e0f11);
  --card: light-dark(#fff, #16171a); --sunken: light-dark(#f2f2f4, #1e1f23); --line: light-dark(#e0e0e6, #2a2b31); --accent: light-dark(#4c46dc, #9ea1ff) }
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.6 system-ui, sans-serif; overflow-wrap: anywhere }
a { color: var(--accent); text-decoration: none } a:hover { text-decoration: underline } p a, dd a { text-decoration: underline; text-underline-offset: 2px }
h1 { margin: 0; font-size: 1.6rem; letter-spacing: -.02em; line-height: 1.25 } h2 { margin: 3rem 0 .25rem; font-size: 1.25rem; text-transform: capitalize }
h3 { margin: 0; font-size: 1.05rem } h4 { margin: 1.25rem 0 .25rem; font-size: .8125rem; color: var(--quiet) } p { margin: .5rem 0 } p:empty { display: none }
.page { display: grid; grid-template-columns: 17rem minmax(0, 1fr) }
.side { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.25rem .75rem 3rem 1rem; border-right: 1px solid var(--line) }
.side ul { margin: 0; padding: 0; list-style: none } .side a { display: block; padding: .2rem .5rem; border-radius: .4rem; color: var(--quiet); font-size: .875rem; line-height: 1.35 }
.side a:hover, .side a[aria-current] { background: var(--sunken); color: var(--ink); text-decoration: none } .side .group { margin-top: 1rem; color: var(--ink); font-weight: 600; text-transform: capitalize }
.side summary { display: none }
.method { display: inline-block; min-width: 3.2em; color: var(--accent); font: 600 .72rem/1 ui-monospace, SFMono-Regular, Menlo, monospace }
.content { min-width: 0; max-width: 84rem; padding: 1.75rem 2rem 5rem }
article, .schema { margin: 1rem 0; padding: 1.1rem 1.25rem; border: 1px solid var(--line); border-radius: .75rem; background: var(--card) }
.schema { margin: .4rem 0; padding: .4rem 1rem } .call { margin: .25rem 0 0; color: var(--quiet) }
.columns > * { min-width: 0 }
dl, dd { margin: 0 } dl > div { padding: .4rem 0; border-top: 1px solid var(--line) } dd { color: var(--quiet) }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, monospace }
pre, textarea, output { font: .8125rem/1.6 ui-monospace, SFMono-Regular, Menlo, monospace }
pre { overflow-x: auto; white-space: pre-wrap; margin: .5rem 0; padding: .75rem; border-radius: .5rem; background: var(--sunken); max-height: 24rem }
summary { cursor: pointer; padding: .2rem 0 }
button { padding: .35rem .75rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); color: var(--ink); font: inherit; font-size: .875rem; cursor: pointer }
button:hover { background: var(--sunken) }
.languages { display: flex; gap: 2px; margin: .75rem 0 0 } .languages button { border-color: transparent; color: var(--quiet); background: none }
.languages button[aria-pressed="true"] { background: var(--sunken); color: var(--ink); font-weight: 600 }
.sample { display: none }
[data-shown="curl"] .sample-curl, [data-shown="typescript"] .sample-typescript, [data-shown="python"] .sample-python, .sample:only-of-type { display: block }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
:target { border-color: var(--accent) }
dialog { width: min(44rem, calc(100vw - 1rem)); border: 1px solid var(--line); border-radius: .75rem; background: var(--card); color: var(--ink) }
dialog h2 { margin-top: 0; text-transform: none }
label { display: block; margin: .6rem 0 } input, textarea { display: block; width: 100%; padding: .4rem .6rem; border: 1px solid var(--quiet); border-radius: .4rem;
  background: var(--page); color: var(--ink) } input { font: inherit }
textarea { min-height: 10rem } output { display: block; white-space: pre-wrap; margin-top: .75rem } [hidden] { display: none !important }
@media (min-width: 1200px) { .columns { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 27rem); gap: 2rem } .try { position: sticky; top: 1rem; align-self: start } }
@media (max-width: 800px) { .page { display: block } .side { position: static; height: auto; padding: .75rem 1rem; border-right: 0; border-bottom: 1px solid var(--line) }
  .side summary { display: block; font-weight: 600 } .content { padding: 1.25rem 1rem 4rem } article { padding: 1rem } .side a { padding: .35rem .5rem } }
`

/** Runs in the browser: opens the form of an operation and sends its request. */
export const script = `
const dialog = document.querySelector("dialog"), rest = document.getElementById("rest"), title = document.getElementById("title")
const answer = document.querySelector("output"), token = document.getElementById("token")
let form
const add = (name, element) => {
  const label = document.createElement("label")
  label.append(name, element)
  rest.append(label)
  return element
}
const choose = (language) => {
  document.body.dataset.shown = language
  document.querySelectorAll("[data-language]").forEach((button) => button.setAttribute("aria-pressed", button.dataset.language === language))
}
const kept = () => { try { return localStorage.getItem("docs.language") } catch {} }
choose(["typescript", "python"].find((language) => language === kept()) ?? "curl")
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
  if (target instanceof HTMLDetailsElement) target.open = true
  document.querySelectorAll(".side [aria-current]").forEach((link) => link.removeAttribute("aria-current"))
  document.querySelector('.side a[href="' + CSS.escape(location.hash) + '"]')?.setAttribute("aria-current", "true")
}
addEventListener("hashchange", reveal)
reveal()
const menu = document.querySelector(".side details")
if (matchMedia("(max-width: 800px)").matches) menu.open = false
menu.addEventListener("click", ({ target }) => { if (target.closest("a") && matchMedia("(max-width: 800px)").matches) menu.open = false })
document.getElementById("filter").addEventListener("input", ({ target: { value } }) => {
  const words = value.toLowerCase().split(/\\s+/)
  const fits = (text) => words.every((word) => text.toLowerCase().includes(word))
  document.querySelectorAll(".side li li").forEach((item) => item.hidden = !fits(item.textContent + " " + item.firstChild.title))
  document.querySelectorAll(".side > details > ul > li:has(ul)").forEach((group) => group.hidden = !group.querySelector("li:not([hidden])"))
})
document.addEventListener("click", ({ target }) => {
  if (target.dataset.language) {
    const { top } = target.getBoundingClientRect()
    choose(target.dataset.language)
    // Other examples have another height: the button stays under the mouse.
    scrollBy(0, target.getBoundingClientRect().top - top)
    try { localStorage.setItem("docs.language", target.dataset.language) } catch {}
    return
  }
  if (!target.dataset.form) return
  form = JSON.parse(target.dataset.form)
  title.textContent = form.method.toUpperCase() + " " + form.path
  rest.replaceChildren()
  answer.textContent = ""
  form.inputs = form.parameters.map(({ name }) => add(name, document.createElement("input")))
  form.file = form.isUpload ? add("file", Object.assign(document.createElement("input"), { type: "file" })) : undefined
  form.text = form.body === null ? undefined : add("body", document.createElement("textarea"))
  if (form.text) form.text.value = JSON.stringify(form.body, null, 2)
  dialog.showModal()
})
document.getElementById("send").addEventListener("click", async () => {
  let path = form.path
  const query = new URLSearchParams()
  form.parameters.forEach((parameter, index) => {
    const { value } = form.inputs[index]
    if (parameter.in === "path") path = path.replace("{" + parameter.name + "}", encodeURIComponent(value))
    else if (value !== "") query.append(parameter.name, value)
  })
  const headers = { authorization: "Bearer " + token.value.trim() }
  let body
  if (form.text) { headers["content-type"] = "application/json"; body = form.text.value }
  if (form.file?.files[0]) { body = new FormData(); body.append("file", form.file.files[0]) }
  answer.textContent = "…"
  try {
    const response = await fetch(path + (query.size > 0 || form.method === "get" && form.parameters.length > 0 ? "?" + query : ""),
      { method: form.method.toUpperCase(), headers, body })
    const text = await response.text()
    let shown = text
    try { shown = JSON.stringify(JSON.parse(text), null, 2) } catch {}
    answer.textContent = response.status + " " + response.statusText + "\\n\\n" + shown
  } catch (error) { answer.textContent = String(error) }
})
document.getElementById("close").addEventListener("click", () => dialog.close())
`
