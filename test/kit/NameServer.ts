/** A DNS server on a real socket; the test chooses the response to each A query by its number. */
import { createSocket } from "node:dgram"
import { once } from "node:events"

/** The response to a query: its header and question, followed by one record per address. */
const answer = (query: Buffer, addresses: ReadonlyArray<string>) => {
  const question = query.subarray(12, query.indexOf(0, 12) + 5)
  const header = Buffer.from(query.subarray(0, 12))
  header.writeUInt16BE(0x8180, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(addresses.length, 6)
  header.writeUInt32BE(0, 8)
  const records = addresses.map((address) =>
    Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split(".").map(Number)])
  )
  return Buffer.concat([header, question, ...records])
}

const typeOf = (query: Buffer) => query.readUInt16BE(query.indexOf(0, 12) + 1)
const typeA = 1

export const startNameServer = async (addressesOf: (question: number) => ReadonlyArray<string>) => {
  const socket = createSocket("udp4")
  let asked = 0
  socket.on("message", (query, { address, port }) => {
    const addresses = typeOf(query) === typeA ? addressesOf(++asked) : []
    socket.send(answer(query, addresses), port, address)
  })
  socket.bind(0, "127.0.0.1")
  await once(socket, "listening")
  return {
    server: `127.0.0.1:${socket.address().port}`,
    asked: () => asked,
    close: () => new Promise<void>((resolve) => socket.close(() => resolve()))
  }
}
