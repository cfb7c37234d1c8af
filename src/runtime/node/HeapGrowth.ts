/**
 * The growth of the heap before V8 collects old objects. By default it lets a small heap grow to four times what survived the
 * last collection; test/bench/README.md has figures.
 */
import { setFlagsFromString } from "node:v8"

/** Percent of what survived the last collection. */
const percent = 40

/** V8 reads the flag at each collection, so it may be set while the process runs. */
export const limit = () => setFlagsFromString(`--heap-growing-percent=${percent}`)
