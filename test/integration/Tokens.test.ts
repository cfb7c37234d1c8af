import { generateKeyPairSync } from "node:crypto"
import { assert, describe, it } from "vitest"
import { openDatabase } from "../kit/databases.ts"
import { answerJson, LoopbackServer } from "../kit/LoopbackServer.ts"
import { RawClient, requestHead } from "../kit/RawClient.ts"
import { jwtSecret, Service } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { attacksOn, audience, goodClaims, issuer, type Keeper, signed, tokensToTake } from "../kit/tokenAttacks.ts"

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 })
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" })

const pem = rsa.publicKey.export({ type: "spki", format: "pem" }) as string
const der = rsa.publicKey.export({ type: "spki", format: "der" })
const rsaKey = rsa.publicKey.export({ format: "jwk" })
const rsaJwk = JSON.stringify(rsaKey)
const ecJwk = JSON.stringify(ec.publicKey.export({ format: "jwk" }))
const kid = "of the tests"

const database = await use(openDatabase())
const keys = await use(
  new LoopbackServer((_, response) => answerJson(response, 200, { keys: [{ ...rsaKey, kid }] })).listen()
)
let attackerAsked = 0
const attacker = await use(
  new LoopbackServer((_, response) => {
    attackerAsked += 1
    answerJson(response, 200, {})
  }).listen()
)

interface Configuration {
  readonly name: string
  readonly keeper: Keeper
  readonly settings: Readonly<Record<string, string>>
}

const configurations: ReadonlyArray<Configuration> = [
  {
    name: "a secret",
    keeper: { alg: "HS256", key: jwtSecret, publicForms: ["", "secret", jwtSecret.slice(1), `${jwtSecret}\n`] },
    settings: { JWT_SECRET: jwtSecret }
  },
  {
    name: "a public key in PEM",
    keeper: { alg: "RS256", key: rsa.privateKey, publicForms: [pem, pem.trim(), der, rsaJwk] },
    settings: { JWT_PUBLIC_KEY: pem }
  },
  {
    name: "a public key as JWK",
    keeper: { alg: "ES256", key: ec.privateKey, publicForms: [ecJwk, ""] },
    settings: { JWT_PUBLIC_KEY: ecJwk }
  },
  {
    name: "keys at a URL",
    keeper: { alg: "RS256", key: rsa.privateKey, kid, publicForms: [pem, pem.trim(), der, rsaJwk] },
    settings: { JWT_JWKS_URL: keys.url }
  }
]

describe.each(configurations)("with $name", async ({ keeper, settings }) => {
  const rules = { JWT_SECRET: "", JWT_ISSUER: issuer, JWT_AUDIENCE: audience, ...settings }
  const service = await use(Service.start({ DATABASE_URL: database.url, ...rules }))
  expectQuiet(service)

  it("accepts unusual tokens that the standard allows", async () => {
    for (const [name, token] of tokensToTake(keeper)) {
      assert.strictEqual((await service.call("GET", "/api/tasks", token)).status, 200, name)
    }
  })

  it("rejects every attack with 401, and requests no URL that a token names", async () => {
    const taken: Array<string> = []
    for (const [name, token] of await attacksOn(keeper, attacker.url)) {
      const { body, headers, status } = await service.call("GET", "/api/tasks", token)
      const isRefused = status === 401 && headers.get("www-authenticate") === "Bearer" &&
        Object.keys(body).join() === "message,code"
      if (!isRefused) taken.push(`${name}: ${status} ${JSON.stringify(body)}`)
    }
    assert.deepStrictEqual(taken, [])
    assert.strictEqual(attackerAsked, 0)
  })

  it("says why a token is refused", async () => {
    const header = { alg: keeper.alg, ...(keeper.kid === undefined ? {} : { kid }) }
    const good = signed(keeper, header, goodClaims())
    const withClaims = (claims: object) => signed(keeper, header, { ...goodClaims(), ...claims })
    const reasons: ReadonlyArray<readonly [string, RegExp]> = [
      ["", /Send it as `Authorization: Bearer <JWT>`\.$/],
      ["x", /Send it as `Authorization: Bearer <JWT>`\.$/],
      [withClaims({ exp: undefined }), /`exp` is required: a later moment in seconds since 1970\.$/],
      [withClaims({ sub: undefined }), /`sub` is required: the user, 1 to 255 characters\.$/],
      [withClaims({ iat: goodClaims().exp * 1000 }), /`iat` is not a past moment in seconds since 1970\.$/],
      [withClaims({ aud: "others" }), /`iss`, `aud` or `nbf` does not fit the service's settings and clock\.$/],
      [`${good.slice(0, -8)}AAAAAAAA`, /The signature does not match the service's key\.$/],
      [signed(keeper, { ...header, alg: "HS512" }, goodClaims()), /The algorithm does not fit the service's key\.$/]
    ]
    for (const [token, reason] of reasons) {
      const { body, status } = await service.call("GET", "/api/tasks", token)
      assert.strictEqual(status, 401)
      assert.match(body.message, reason)
    }
  })

  it("rejects a request with two tokens, even if one is valid", async () => {
    const good = signed(keeper, { alg: keeper.alg, ...(keeper.kid === undefined ? {} : { kid }) }, goodClaims())
    for (const [first, second] of [[good, "x"], ["x", good], [good, good], [good, ""]]) {
      const client = await RawClient.open(service.url)
      const bearers = [first, second].map((token) => `Authorization: Bearer ${token}`)
      const { head, status } = await client.send(requestHead("GET /api/tasks", ...bearers)).answer()
      assert.strictEqual(status, 401)
      assert.match(head, /www-authenticate: Bearer/i)
    }
  })
})
