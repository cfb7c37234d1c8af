/** Settings of V8's collections. test/bench/README.md has figures. */
import { setFlagsFromString } from "node:v8"

/** Percent of what survived the last collection of old objects, by which the heap may grow before the next. V8 lets a small heap grow to four times. */
const growth = 40

/** V8 reads these flags at each collection, so they may be set while the process runs. */
export const configure = () => {
  setFlagsFromString(`--heap-growing-percent=${growth}`)
  // V8 would learn which objects live long, and make them old immediately. Under load it learns that of the objects of a request, and then
  // keeps what they refer to until old objects are collected.
  setFlagsFromString("--no-allocation-site-pretenuring")
}
