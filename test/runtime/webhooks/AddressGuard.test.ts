import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import * as AddressGuard from "../../../src/runtime/webhooks/AddressGuard.ts"
import * as WebhookResolver from "../../../src/runtime/webhooks/WebhookResolver.ts"
import { allowed, refused } from "../../kit/addresses.ts"

const outcomeOf = Effect.fnUntraced(function*(allowPrivate: string, host: string) {
  const resolver = WebhookResolver.make(AddressGuard.parse(allowPrivate), ["127.0.0.1:1"])
  const resolved = yield* Effect.result(resolver.resolve(new URL(`http://${host}/`).hostname))
  return Result.match(resolved, { onSuccess: () => "allowed", onFailure: ({ error }) => error })
})

describe("hosts of webhooks", () => {
  it("include at least 100 refused hosts without duplicates", () => {
    assert.isAtLeast(refused.length, 100)
    assert.strictEqual(new Set([...refused, ...allowed]).size, refused.length + allowed.length)
  })

  it.effect.each(refused)("refuses %s", (host) =>
    Effect.gen(function*() {
      assert.strictEqual(yield* outcomeOf("false", host), "address_refused")
    }))

  it.effect.each(allowed)("allows %s", (host) =>
    Effect.gen(function*() {
      assert.strictEqual(yield* outcomeOf("false", host), "allowed")
    }))
})

describe("WEBHOOK_ALLOW_PRIVATE", () => {
  it.effect.each(
    [
      ["true", "127.0.0.1", "allowed"],
      ["true", "127.9.9.9", "allowed"],
      ["true", "[::1]", "allowed"],
      ["true", "localhost", "allowed"],
      ["true", "localhost.", "allowed"],
      ["true", "10.0.0.1", "address_refused"],
      ["true", "[::ffff:127.0.0.1]", "allowed"],
      ["false", "localhost", "address_refused"],
      ["", "127.0.0.1", "address_refused"],
      ["10.1.0.0/16, fd00::/8", "10.1.2.3", "allowed"],
      ["10.1.0.0/16, fd00::/8", "10.2.0.1", "address_refused"],
      ["10.1.0.0/16, fd00::/8", "[fd12::1]", "allowed"],
      ["10.1.2.3", "10.1.2.3", "allowed"],
      ["10.1.2.3", "10.1.2.4", "address_refused"],
      ["localhost", "localhost", "allowed"],
      ["localhost", "127.0.0.1", "address_refused"],
      ["LocalHost.", "localhost", "allowed"],
      ["true,10.0.0.0/8", "10.0.0.1", "allowed"]
    ] as const
  )("%s: %s is %s", ([allowPrivate, host, expected]) =>
    Effect.gen(function*() {
      assert.strictEqual(yield* outcomeOf(allowPrivate, host), expected)
    }))

  it.each(["yes!", "10.0.0.0/33", "10.0.0/8", "http://x", "::1/129", "1.2.3.4/8/9", "a b"])("rejects %s", (text) => {
    assert.throws(() => AddressGuard.parse(text), "must be true, false")
  })
})
