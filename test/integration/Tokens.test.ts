import { generateKeyPairSync } from "node:crypto"
import { once } from "node:events"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { type OpenDatabase, openDatabase } from "../kit/databases.ts"
import { RawClient } from "../kit/RawClient.ts"
import { Service } from "../kit/Service.ts"
import { attacksOn, audience, goodClaims, issuer, type Keeper, signed, tokensToTake } from "../kit/tokenAttacks.ts"

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 })
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" })
const secret = "a secret of the tests, long enough for HS256"

const pem = rsa.publicKey.export({ type: "spki", format: "pem" }) as string
const der = rsa.publicKey.export({ type: "spki", format: "der" })
const rsaJwk = JSON.stringify(rsa.publicKey.export({ format: "jwk" }))
const ecJwk = JSON.stringify(ec.publicKey.export({ format: "jwk" }))
const kid = "of the tests"

let database: OpenDatabase
let keys: Server
let attacker: Server
let attackerAsked = 0

const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`

beforeAll(async () => {
  database = await openDatabase()
  keys = createServer((_, response) => {
    response.end(JSON.stringify({ keys: [{ ...JSON.parse(rsaJwk), kid }] }))
  }).listen(0, "127.0.0.1")
  attacker = createServer((_, response) => {
    attackerAsked += 1
    response.end("{}")
  }).listen(0, "127.0.0.1")
  await Promise.all([once(keys, "listening"), once(attacker, "listening")])
})

afterAll(async () => {
  keys.close()
  attacker.close()
  await database.drop()
})

interface Configuration {
  readonly name: string
  readonly keeper: Keeper
  readonly settings: () => Record<string, string>
}

const configurations: ReadonlyArray<Configuration> = [
  {
    name: "a secret",
    keeper: { alg: "HS256", key: secret, publicForms: ["", "secret", secret.slice(1), `${secret}\n`] },
    settings: () => ({ JWT_SECRET: secret })
  },
  {
    name: "a public key in PEM",
    keeper: { alg: "RS256", key: rsa.privateKey, publicForms: [pem, pem.trim(), der, rsaJwk] },
    settings: () => ({ JWT_PUBLIC_KEY: pem })
  },
  {
    name: "a public key as JWK",
    keeper: { alg: "ES256", key: ec.privateKey, publicForms: [ecJwk, ""] },
    settings: () => ({ JWT_PUBLIC_KEY: ecJwk })
  },
  {
    name: "keys at a URL",
    keeper: { alg: "RS256", key: rsa.privateKey, kid, publicForms: [pem, pem.trim(), der, rsaJwk] },
    settings: () => ({ JWT_JWKS_URL: urlOf(keys) })
  }
]

describe.each(configurations)("with $name", ({ keeper, settings }) => {
  let service: Service

  beforeAll(async () => {
    service = await Service.start({
      DATABASE_URL: database.url,
      JWT_SECRET: "",
      JWT_ISSUER: issuer,
      JWT_AUDIENCE: audience,
      ...settings()
    })
  })

  afterAll(async () => {
    await service.stop()
    assert.notMatch(service.output, /a request failed/)
  })

  it("accepts unusual tokens that the standard allows", async () => {
    for (const [name, token] of tokensToTake(keeper)) {
      assert.strictEqual((await service.call("GET", "/api/tasks", token)).status, 200, name)
    }
  })

  it("rejects every attack with 401, and requests no URL that a token names", async () => {
    const taken: Array<string> = []
    for (const [name, token] of await attacksOn(keeper, urlOf(attacker))) {
      const { body, headers, status } = await service.call("GET", "/api/tasks", token)
      // A well-formed `kid` that is not in the key set may appear in the next one.
      const isUnknown = keeper.kid !== undefined && name.startsWith("foreign key") && name.includes("\"kid\"") &&
        status === 503 && headers.get("retry-after") !== null
      const isRefused = isUnknown || status === 401 && headers.get("www-authenticate") === "Bearer" &&
          Object.keys(body).join() === "message"
      if (!isRefused) taken.push(`${name}: ${status} ${JSON.stringify(body)}`)
    }
    assert.deepStrictEqual(taken, [])
    assert.strictEqual(attackerAsked, 0)
  })

  it("rejects a request with two tokens, even if one is valid", async () => {
    const good = signed(keeper, { alg: keeper.alg, ...(keeper.kid === undefined ? {} : { kid }) }, goodClaims())
    for (const [first, second] of [[good, "x"], ["x", good], [good, good], [good, ""]]) {
      const client = await RawClient.open(service.url)
      client.send(
        `GET /api/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${first}\r\nAuthorization: Bearer ${second}\r\n\r\n`
      )
      const { head, status } = await client.answer()
      client.close()
      assert.strictEqual(status, 401)
      assert.match(head, /www-authenticate: Bearer/i)
    }
  })
})
