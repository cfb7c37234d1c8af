/**
 * Bounds the memory of uploads. V8 accumulates 64 MB of unused buffers outside its heap before it collects them. They are
 * young, so a minor collection of about 1.5 ms frees them and avoids the more expensive major one.
 */
import { Layer } from "effect"
import * as v8 from "node:v8"
import * as vm from "node:vm"
import { PassedBytes } from "../../services/limits/Memory.ts"

const bytesPerCollection = 16 * 1024 * 1024

export const layer = Layer.sync(PassedBytes, () => {
  v8.setFlagsFromString("--expose-gc")
  const collect: (options: { readonly type: "minor" }) => void = vm.runInNewContext("gc")
  let passed = 0
  return (count) => {
    passed += count
    if (passed < bytesPerCollection) return
    passed = 0
    collect({ type: "minor" })
  }
})
