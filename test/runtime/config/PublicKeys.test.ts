import { execFileSync } from "node:child_process"
import { createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { parse } from "../../../src/runtime/config/PublicKeys.ts"
import * as TokenKeys from "../../../src/runtime/config/TokenKeys.ts"
import { useDirectory } from "../../kit/suite.ts"

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 })
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" })
const ed = generateKeyPairSync("ed25519")
const directory = useDirectory()

const spki = (key: KeyObject) => String(key.export({ type: "spki", format: "pem" }))
const pkcs8 = (key: KeyObject) => String(key.export({ type: "pkcs8", format: "pem" }))
const der = (key: KeyObject) => key.export({ type: "spki", format: "der" }).toString("base64")
const base64 = (text: string) => Buffer.from(text).toString("base64")
const jwk = (key: KeyObject, more = {}) => ({ ...key.export({ format: "jwk" }), ...more })
const openssl = (...args: ReadonlyArray<string>) => execFileSync("openssl", args, { cwd: directory, stdio: "pipe" })

const write = (name: string, text: string) => {
  fs.writeFileSync(path.join(directory, name), text)
  return name
}

/** A certificate of a key, by itself or by an authority. */
const certify = (name: string, key: KeyObject, authority?: string, subject = name) => {
  write(`${name}.key`, pkcs8(key))
  const by = authority === undefined ? [] : ["-CA", `${authority}.pem`, "-CAkey", `${authority}.key`]
  openssl("req", "-x509", "-key", `${name}.key`, "-subj", `/CN=${subject}`, "-days", "2", "-out", `${name}.pem`, ...by)
  return fs.readFileSync(path.join(directory, `${name}.pem`), "utf8")
}

const authority = certify("authority", ec.privateKey)
const certificate = certify("signer", rsa.privateKey, "authority")
const pem = spki(rsa.publicKey)
const pkcs1 = String(rsa.publicKey.export({ type: "pkcs1", format: "pem" }))
const body = (text: string) => text.replaceAll(/-----[^-]+-----|\s/g, "")

const forms: Readonly<Record<string, string>> = {
  "PEM": pem,
  "PEM without a last line break": pem.trim(),
  "PEM with \\n in place of line breaks": pem.replaceAll("\n", "\\n"),
  "PEM with \\r\\n in place of line breaks": pem.replaceAll("\n", "\\r\\n"),
  "PEM with \\\\n, escaped twice": pem.replaceAll("\n", "\\\\n"),
  "PEM with blanks in place of line breaks": pem.replaceAll("\n", " "),
  "PEM without line breaks": pem.replaceAll("\n", ""),
  "PEM with line breaks of Windows": pem.replaceAll("\n", "\r\n"),
  "PEM with indented lines and a text before it": `Bag Attributes\n${pem.replaceAll(/^/gm, "    ")}`,
  "base64 of PEM": base64(pem),
  "base64 of PEM with line breaks of its own": base64(pem).replaceAll(/.{76}/g, "$&\n"),
  "PKCS#1": pkcs1,
  "PKCS#1 with blanks": pkcs1.replaceAll("\n", " "),
  "bare base64 of DER": der(rsa.publicKey),
  "bare base64url of DER": Buffer.from(der(rsa.publicKey), "base64").toString("base64url"),
  "bare base64 of PKCS#1": body(pkcs1),
  "a certificate": certificate,
  "a certificate with \\n": certificate.replaceAll("\n", "\\n"),
  "the bare base64 of a certificate": body(certificate),
  "base64 of a certificate": base64(certificate),
  "a certificate and its authority": certificate + authority,
  "a JWK": JSON.stringify(jwk(rsa.publicKey, { kid: "a", use: "sig", alg: "RS256" })),
  "an indented JWK": JSON.stringify(jwk(rsa.publicKey), undefined, 2),
  "base64 of a JWK": base64(JSON.stringify(jwk(rsa.publicKey))),
  "a JWKS": JSON.stringify({ keys: [jwk(rsa.publicKey, { kid: "a" })] }),
  "a JWKS with a key of encryption, and one of an unknown kind": JSON.stringify({
    keys: [jwk(ec.publicKey, { use: "enc" }), { kty: "OKP", crv: "X999", x: "a" }, jwk(rsa.publicKey)]
  }),
  "base64 of a JWKS": base64(JSON.stringify({ keys: [jwk(rsa.publicKey)] }))
}

const several: Readonly<Record<string, string>> = {
  "PEM after PEM": pem + spki(ec.publicKey) + spki(ed.publicKey),
  "a list of bare base64": [rsa, ec, ed].map(({ publicKey }) => der(publicKey)).join(", "),
  "a JWKS": JSON.stringify({ keys: [rsa, ec, ed].map(({ publicKey }) => jwk(publicKey)) })
}

const privateKeys: Readonly<Record<string, string>> = {
  "PKCS#8": pkcs8(rsa.privateKey),
  "PKCS#8 with blanks": pkcs8(rsa.privateKey).replaceAll("\n", " "),
  "PKCS#1": String(rsa.privateKey.export({ type: "pkcs1", format: "pem" })),
  "SEC 1": String(ec.privateKey.export({ type: "sec1", format: "pem" })),
  "encrypted": String(
    rsa.privateKey.export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "secret" })
  ),
  "OpenSSH": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
  "base64 of PEM": base64(pkcs8(ed.privateKey)),
  "bare base64": body(pkcs8(rsa.privateKey)),
  "a JWK": JSON.stringify(jwk(ec.privateKey)),
  "a JWKS": JSON.stringify({ keys: [jwk(rsa.publicKey), jwk(ed.privateKey)] }),
  "after a public one": pem + pkcs8(rsa.privateKey)
}

const others: ReadonlyArray<string> = [
  "no key",
  "https://issuer.example/jwks.json",
  "/run/secrets/key.pem",
  "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDummyDummyDummyDummyDummyDummyDummyDummy me@host",
  "-----BEGIN PUBLIC KEY-----",
  pem.slice(0, 200),
  `-----BEGIN PUBLIC KEY-----\n${base64("x".repeat(100))}\n-----END PUBLIC KEY-----`,
  der(rsa.publicKey).slice(0, 100),
  base64("x".repeat(100)),
  "{",
  "{}",
  "[]",
  `{"keys": []}`,
  `{"keys": {}}`,
  `{"kty": "RSA"}`
]

describe("a public key", () => {
  it.each(Object.entries(forms))("is read as %s", (_, text) => {
    for (const padded of [text, `\n${text}\n`]) {
      assert.deepStrictEqual(parse(padded).map(spki), [pem])
    }
    const { algorithms } = TokenKeys.rulesOf({ JWT_PUBLIC_KEY: text }, undefined)
    assert.deepStrictEqual(algorithms, ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
  })

  it.each(Object.entries(several))("is read with others, as %s", (_, text) => {
    assert.deepStrictEqual(parse(text).map(spki), [rsa, ec, ed].map(({ publicKey }) => spki(publicKey)))
  })

  it.each(Object.entries(privateKeys))("that is private is refused: %s", (_, text) => {
    assert.throws(() => parse(text), /holds a private key.*openssl pkey -in key\.pem -pubout/)
  })

  it("of any other form is refused with the forms that are taken, and is not shown", () => {
    for (const text of others) {
      assert.throws(() => parse(text), /^JWT_PUBLIC_KEY must be a public key in PEM .* JWKS/, text)
    }
    assert.throws(() => parse(`{"kty": "oct", "k": "c2VjcmV0"}`), /symmetric key: set its text as JWT_SECRET/)
    assert.throws(() => parse(pem.repeat(21)), /more than 20 keys/)
  })

  it("of a self-signed certificate is taken, and two that sign nothing for each other are both keys", () => {
    const other = certify("other", ed.privateKey)
    assert.deepStrictEqual(parse(authority + other).map(spki), [ec, ed].map(({ publicKey }) => spki(publicKey)))
    assert.strictEqual(createPublicKey(other).asymmetricKeyType, "ed25519")
  })

  it("of a self-signed certificate is taken beside those of the same subject: its successor, and its renewal", () => {
    const pairs = [[rsa, generateKeyPairSync("rsa", { modulusLength: 2048 })], [ec, ed], [rsa, ec]] as const
    for (const [index, pair] of pairs.entries()) {
      const [old = "", next = ""] = pair.map(({ privateKey }, at) =>
        certify(`${index}-${at}`, privateKey, undefined, "same")
      )
      const expected = pair.map(({ publicKey }) => spki(publicKey))
      assert.deepStrictEqual(parse(old + next).map(spki), expected)
      assert.deepStrictEqual(parse(next + old).map(spki), expected.toReversed())
    }
    const renewed = certify("renewed", ec.privateKey, undefined, "authority")
    assert.deepStrictEqual([...new Set(parse(authority + renewed).map(spki))], [spki(ec.publicKey)])
    assert.deepStrictEqual(parse(renewed + certificate + authority).map(spki), [pem])
  })
})
