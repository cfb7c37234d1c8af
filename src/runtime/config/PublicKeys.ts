/** Reads JWT_PUBLIC_KEY: keys in the forms in which issuers hand them out. */
import { createPrivateKey, createPublicKey, type KeyObject, type webcrypto, X509Certificate } from "node:crypto"

const forms =
  "JWT_PUBLIC_KEY must be a public key in PEM (line breaks may be blanks or \\n), an X.509 certificate, base64 of either or of DER,"
  + " a JWK or a JWKS; several keys follow each other"

const unreadable = () => new Error(forms)

const isPrivate = () =>
  new Error(
    "JWT_PUBLIC_KEY holds a private key, with which whoever reads it can sign tokens: write the public key, as"
      + " `openssl pkey -in key.pem -pubout` prints it"
  )

/** More keys would slow the verification of every wrong token. */
const maxKeys = 20

const attempt = <A>(make: () => A): A | undefined => {
  try {
    return make()
  } catch {
    return undefined
  }
}

const types = {
  public: ["spki", "pkcs1"],
  private: ["pkcs8", "pkcs1", "sec1"]
} as const

interface Found {
  readonly key: KeyObject
  readonly certificate?: X509Certificate
}

const ofDer = (der: Buffer): Found => {
  // The public half of a private key would be read as well.
  if (types.private.some((type) => attempt(() => createPrivateKey({ key: der, format: "der", type })) !== undefined)) {
    throw isPrivate()
  }
  for (const type of types.public) {
    const key = attempt(() => createPublicKey({ key: der, format: "der", type }))
    if (key !== undefined) return { key }
  }
  const certificate = attempt(() => new X509Certificate(der))
  if (certificate === undefined) throw unreadable()
  return { key: certificate.publicKey, certificate }
}

/** Names alone do not say who issued: the certificates of a key and of its successor may have the same. */
const isIssuedBy = (one: X509Certificate, { publicKey }: X509Certificate) =>
  attempt(() => one.verify(publicKey) && !one.verify(one.publicKey)) === true

/** The certificates of a chain that issued others are an authority's: its key signs no tokens. */
const withoutIssuers = (found: ReadonlyArray<Found>) =>
  found.filter(({ certificate }) =>
    certificate === undefined
    || !found.some((other) => other.certificate !== undefined && isIssuedBy(other.certificate, certificate))
  )

const block = /-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END \1-----/g

/** The text in blocks may have blanks, or the characters `\n`, in place of line breaks. */
const ofPem = (text: string) => {
  const blocks = [...text.matchAll(block)].map(([, label = "", body = ""]) => ({
    label,
    der: Buffer.from(body.replaceAll(/\\+[nr]|\s/g, ""), "base64")
  }))
  if (/-----BEGIN [A-Z ]*PRIVATE KEY/.test(text)) throw isPrivate()
  if (blocks.length === 0) throw unreadable()
  return withoutIssuers(blocks.map(({ der }) => ofDer(der))).map(({ key }) => key)
}

const ofJwk = (jwk: webcrypto.JsonWebKey): ReadonlyArray<KeyObject> => {
  if (jwk.kty === "oct") throw new Error("JWT_PUBLIC_KEY is a symmetric key: set its text as JWT_SECRET")
  if (jwk.d !== undefined) throw isPrivate()
  // A set may hold keys of encryption, and of kinds that no supported algorithm uses.
  const key = jwk["use"] === "enc" ? undefined : attempt(() => createPublicKey({ key: jwk, format: "jwk" }))
  return key === undefined ? [] : [key]
}

const ofJson = (text: string) => {
  const json = attempt((): webcrypto.JsonWebKey & { readonly keys?: unknown } => JSON.parse(text))
  if (json === undefined) throw unreadable()
  const keys: ReadonlyArray<webcrypto.JsonWebKey> = Array.isArray(json.keys) ? json.keys : [json]
  return keys.flatMap(ofJwk)
}

const isBase64 = (text: string) => /^[A-Za-z0-9+/_-]{16,}={0,2}$/.test(text)

const ofText = (text: string): ReadonlyArray<KeyObject> => {
  if (text.startsWith("{")) return ofJson(text)
  if (text.includes("-----BEGIN")) return ofPem(text)
  return text.split(",").flatMap((part) => {
    const base64 = part.replaceAll(/\\+[nr]|\s/g, "")
    if (!isBase64(base64)) throw unreadable()
    const bytes = Buffer.from(base64, "base64")
    const decoded = bytes.toString("latin1").trim()
    return /^\{|-----BEGIN/.test(decoded) ? ofText(decoded) : [ofDer(bytes).key]
  })
}

/** Returns at least one key. The messages of errors contain nothing of the text. */
export const parse = (text: string): ReadonlyArray<KeyObject> => {
  const keys = ofText(text.trim())
  if (keys.length === 0) throw unreadable()
  if (keys.length > maxKeys) throw new Error(`JWT_PUBLIC_KEY has more than ${maxKeys} keys`)
  return keys
}
