import * as fs from "node:fs"
import * as path from "node:path"
import * as tls from "node:tls"
import { afterAll, beforeAll } from "vitest"

const pem = (name: string) => fs.readFileSync(path.join(import.meta.dirname, name), "utf8")

/** The certificate of this folder, for `localhost`, which signs itself. */
export const certificate = { key: pem("key.pem"), cert: pem("cert.pem") }

/** Trusts the certificate during the tests of a file: later files of the same worker test that it is refused. */
export const trustCertificate = () => {
  const before = tls.getCACertificates()
  beforeAll(() => tls.setDefaultCACertificates([...before, certificate.cert]))
  afterAll(() => tls.setDefaultCACertificates(before))
}
