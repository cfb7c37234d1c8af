/** Invalid tokens, of the kinds that Wycheproof lists, for a service with a given key, issuer and audience. */
import * as jose from "jose"
import { createHmac, generateKeyPairSync, type KeyObject, sign as signBytes } from "node:crypto"

export const issuer = "https://issuer.test"
export const audience = "tasks"

/** A type of key: the operator's setting and the issuer's signing key. */
export interface Keeper {
  readonly alg: "HS256" | "RS256" | "ES256"
  /** The secret or the private key. */
  readonly key: string | KeyObject
  /** All forms of the public key that an attacker may have. */
  readonly publicForms: ReadonlyArray<string | Uint8Array>
  readonly kid?: string
}

const base64 = (value: string | Uint8Array) => Buffer.from(value).toString("base64url")

const json = (value: unknown) =>
  typeof value === "string" || value instanceof Uint8Array ? value : JSON.stringify(value)

/** A description and the token. */
type Named = readonly [string, string]

type Part = string | Uint8Array | object | null

/** Signs header and payload as they are. A text is used literally. */
export const signed = ({ alg, key }: Pick<Keeper, "alg" | "key">, header: Part, payload: Part) => {
  const text = `${base64(json(header))}.${base64(json(payload))}`
  const signature = typeof key === "string" || alg === "HS256"
    ? createHmac("sha256", key as string).update(text).digest()
    : signBytes("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" })
  return `${text}.${base64(signature)}`
}

const inAnHour = () => Math.floor(Date.now() / 1000) + 3600

export const goodClaims = () => ({ sub: "ann", iss: issuer, aud: audience, exp: inAnHour() })

const headerOf = ({ alg, kid }: Keeper) => ({ alg, ...(kid === undefined ? {} : { kid }) })

/** Unusual but valid tokens. They show that the attacks fail for the intended reason. */
export const tokensToTake = (keeper: Keeper): ReadonlyArray<Named> => {
  const withClaims = (claims: object) => signed(keeper, headerOf(keeper), { ...goodClaims(), ...claims })
  return [
    ["plain", withClaims({})],
    ["typ", signed(keeper, { ...headerOf(keeper), typ: "JWT" }, goodClaims())],
    ["aud with others", withClaims({ aud: ["others", audience] })],
    ["exp of a fraction", withClaims({ exp: inAnHour() + 0.5 })],
    ["begun", withClaims({ nbf: 1, iat: 1 })]
  ]
}

const oddClaims: Readonly<Record<string, ReadonlyArray<unknown>>> = {
  sub: [undefined, null, "", 7, true, ["ann"], { name: "ann" }, "a\0b", "\ud800", "x".repeat(256)],
  exp: [
    undefined,
    null,
    "",
    "NaN",
    "9999999999",
    "tomorrow",
    true,
    [inAnHour()],
    {},
    0,
    1,
    1.5,
    -1,
    -1e308,
    1e18,
    1e300
  ],
  iss: [undefined, null, "", "https://issuer.test/", [issuer], { issuer }, 7],
  aud: [undefined, null, "", "others", "TASKS", " tasks", [], ["others"], [[audience]], { audience }, 7, true],
  nbf: [inAnHour(), "1", null, {}],
  iat: ["1", null, -1, 1e18, {}],
  jti: ["", 7, null, "\0", "\ud800", "x".repeat(256), ["a"]]
}

const claimAttacks = (keeper: Keeper) =>
  Object.entries(oddClaims).flatMap(([name, values]) =>
    values.map((value) =>
      [
        `${name} ${JSON.stringify(value)?.slice(0, 40)}`,
        signed(keeper, headerOf(keeper), { ...goodClaims(), [name]: value })
      ] as const
    )
  )

/** Numbers beyond a double, and payloads that are not claims. */
const payloadAttacks = (keeper: Keeper) => {
  const rest = `"sub":"ann","iss":"${issuer}","aud":"${audience}"`
  const payloads: ReadonlyArray<string | Uint8Array> = [
    `{${rest},"exp":1e400}`,
    `{${rest},"exp":-1e400}`,
    `{${rest},"exp":NaN}`,
    `{${rest},"exp":Infinity}`,
    `{${rest},"exp":${inAnHour()},"exp":1}`,
    `{${rest},"exp":${inAnHour()}`,
    `{"__proto__":{${rest},"exp":${inAnHour()}}}`,
    "",
    "null",
    "[]",
    "7",
    `"ann"`,
    "[".repeat(3000),
    Buffer.from([0xff, 0xfe, 0x7b, 0x7d])
  ]
  return payloads.map((payload) =>
    [`payload ${payload.slice(-30)}`, signed(keeper, headerOf(keeper), payload)] as const
  )
}

const kids = [
  "../../../../dev/null",
  "/etc/passwd",
  "x' UNION SELECT 'secret' --",
  "a\0b",
  "\ud800",
  "__proto__",
  "",
  7,
  {}
]

/** Signed with the attacker's key, which the header references. */
const foreignKeys = (keeper: Keeper, attackersUrl: string) => {
  const { privateKey, publicKey } = keeper.alg === "ES256"
    ? generateKeyPairSync("ec", { namedCurve: "P-256" })
    : generateKeyPairSync("rsa", { modulusLength: 2048 })
  const own = {
    alg: keeper.alg,
    key: keeper.alg === "HS256" ? "a secret of the attacker's own, long enough" : privateKey
  }
  const der = publicKey.export({ type: "spki", format: "der" }).toString("base64")
  const headers: ReadonlyArray<object> = [
    {},
    { jwk: publicKey.export({ format: "jwk" }) },
    { jwk: { kty: "oct", k: base64(String(own.key)) } },
    { jku: attackersUrl },
    { x5u: attackersUrl },
    { x5c: [der] },
    { jku: attackersUrl, kid: "attacker" },
    ...kids.map((kid) => ({ kid }))
  ]
  return headers.map((header): Named => [
    `foreign key, ${JSON.stringify(header).slice(0, 60)}`,
    signed(own, { ...headerOf(keeper), ...header }, goodClaims())
  ]).concat(
    kids.map((kid) => [
      `kid ${JSON.stringify(kid)}, empty secret`,
      signed({ alg: "HS256", key: "" }, { alg: "HS256", kid }, goodClaims())
    ])
  )
}

/** Tokens with another algorithm than that of the key. */
const algorithmAttacks = (keeper: Keeper): ReadonlyArray<Named> => {
  const header = headerOf(keeper)
  const unsigned = ["none", "None", "NONE", "nOnE", "", null, 7, [keeper.alg], "__proto__", keeper.alg.toLowerCase()]
  const other = keeper.alg === "HS256" ? "RS256" : keeper.alg === "RS256" ? "ES256" : "RS256"
  return [
    ...unsigned.flatMap((alg) => {
      const whole = signed(keeper, { ...header, alg }, goodClaims())
      return [[`alg ${alg}`, whole], [`alg ${alg}, unsigned`, whole.replace(/[^.]*$/, "")]] as const
    }),
    ["no alg", signed(keeper, {}, goodClaims())],
    [`alg ${other}`, signed(keeper, { ...header, alg: other }, goodClaims())],
    ["alg HS512", signed(keeper, { ...header, alg: "HS512" }, goodClaims())],
    ...keeper.publicForms.map((form, index) =>
      [
        `HS256 with the public key, form ${index}`,
        signed({ alg: "HS256", key: form as string }, { ...header, alg: "HS256" }, goodClaims())
      ] as const
    ),
    ...[["exp"], ["x"], [], "x", null, ["alg"], [7]].map((crit) =>
      [`crit ${JSON.stringify(crit)}`, signed(keeper, { ...header, crit, x: 1 }, goodClaims())] as const
    ),
    ["unencoded payload", signed(keeper, { ...header, crit: ["b64"], b64: false }, goodClaims())],
    ["header null", signed(keeper, "null", goodClaims())],
    ["header no JSON", signed(keeper, "{", goodClaims())],
    ["header deep", signed(keeper, "[".repeat(3000), goodClaims())]
  ]
}

/** Tokens that are not three parts of base64url, or whose signature covers other content. */
const formAttacks = async (keeper: Keeper): Promise<ReadonlyArray<Named>> => {
  const good = signed(keeper, headerOf(keeper), goodClaims())
  const [protectedHeader = "", payload = "", signature = ""] = good.split(".")
  const other = base64(JSON.stringify({ ...goodClaims(), sub: "bob" }))
  const encrypted = await new jose.CompactEncrypt(Buffer.from(JSON.stringify(goodClaims())))
    .setProtectedHeader({ alg: "dir", enc: "A256GCM" }).encrypt(new Uint8Array(32))
  const flipped = `${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`
  return [
    ["another's payload", `${protectedHeader}.${other}.${signature}`],
    ["flipped signature", `${protectedHeader}.${payload}.${flipped}`],
    ["no signature", `${protectedHeader}.${payload}.`],
    ["two parts", `${protectedHeader}.${payload}`],
    ["four parts", `${good}.`],
    ["signature cut", good.slice(0, -8)],
    [
      "signature of zeros",
      `${protectedHeader}.${payload}.${base64(new Uint8Array(Buffer.from(signature, "base64url").length))}`
    ],
    ["not base64url", `${protectedHeader}.${payload}.!${signature}`],
    ["JWE", encrypted],
    ["flattened JSON", JSON.stringify({ protected: protectedHeader, payload, signature })],
    ["general JSON", JSON.stringify({ payload, signatures: [{ protected: protectedHeader, signature }] })],
    ["two tokens", `${good}, Bearer ${good}`],
    ["over 8 KiB", signed(keeper, headerOf(keeper), { ...goodClaims(), noise: "x".repeat(6200) })]
  ]
}

export const attacksOn = async (keeper: Keeper, attackersUrl: string) => [
  ...algorithmAttacks(keeper),
  ...foreignKeys(keeper, attackersUrl),
  ...claimAttacks(keeper),
  ...payloadAttacks(keeper),
  ...await formAttacks(keeper)
]
