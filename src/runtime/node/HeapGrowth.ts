/**
 * How far the heap may grow before V8 collects old objects.
 *
 * By default V8 lets a small heap grow to four times what survived the last collection: 43 MiB were in use under load, and 143 were
 * filled before they were collected. A collection takes 9 ms of the event loop, so a node collects earlier.
 */
import { setFlagsFromString } from "node:v8"

/** Percent of what survived the last collection. */
const percent = 60

/** V8 reads the flag at each collection, so it may be set while the process runs. */
export const limit = () => setFlagsFromString(`--heap-growing-percent=${percent}`)
