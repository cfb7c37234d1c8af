import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import {
  contradicts,
  described,
  extensions,
  formatOf,
  formatOfType,
  identify,
  isDangerous,
  mayBeEmpty
} from "../../src/domain/FileFormat.ts"
import { cpuTimer } from "../kit/cpu.ts"

const directory = path.resolve(import.meta.dirname, "../kit/files")
const bytesOf = (...parts: ReadonlyArray<string | ReadonlyArray<number>>) =>
  Buffer.concat(parts.map((part) => typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from(part)))

const words = (texts: string) => texts.trim().split(/\s+/)

describe("the format of a file", () => {
  it("is what its name says, in either spelling", () => {
    for (const extension of extensions) assert.strictEqual(formatOf(`a.b.${extension.toUpperCase()}`), extension)
    assert.deepStrictEqual(["a.jpeg", "a.HTM"].map(formatOf), ["jpg", "html"])
    for (
      const name of ["a.exe", "a", "", ".", "a.", "constructor", "a.constructor", "a.txt ", "a.txt/", "a.7z", "a.svg"]
    ) {
      assert.isUndefined(formatOf(name), name)
    }
  })

  it("is that of the declared type where the name has no extension, and the name then gets one", () => {
    const named = [
      ["blob", "audio/webm;codecs=opus", "blob.webm"],
      ["blob", "VIDEO/WebM; codecs=\"vp8, opus\"", "blob.webm"],
      ["", "audio/ogg", "file.ogg"],
      ["...", "image/png", "file.png"],
      ["voice.", "audio/mp4", "voice.m4a"],
      ["v1.2", "application/pdf", "v1.2.pdf"],
      ["Mr. Smith", "image/jpg", "Mr. Smith.jpg"],
      ["README", "text/plain", "README.txt"],
      ["notes", "text/markdown", "notes.txt"],
      ["feed", "application/rss+xml", "feed.xml"],
      ["data", "application/ld+json; charset=utf-8", "data.json"],
      ["talk", "audio/x-wav", "talk.wav"],
      ["talk", "audio/mpeg", "talk.mp3"],
      ["film", "video/x-matroska;codecs=avc1,opus", "film.mkv"],
      ["sheet", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "sheet.xlsx"],
      // An extension decides, whatever the type.
      ["image.jfif", "image/jpeg", "image.jpg"],
      ["memo.weba", "", "memo.webm"],
      ["a.jpeg", "", "a.jpeg"],
      ["a.pdf.txt", "application/octet-stream", "a.pdf.txt"],
      ["a.txt.", "text/plain", "a.txt"],
      ["a.txt . ", "", "a.txt"],
      ["a.JPEG", "", "a.JPEG"],
      ["a.htm", "", "a.htm"],
      [".jpg", "", ".jpg"],
      ["talk", "audio/x-mpeg", "talk.mp3"]
    ] as const
    for (const [name, type, expected] of named) {
      assert.strictEqual(identify(name, type)?.name, expected, `${name} ${type}`)
    }
    const refused = [
      ["blob", ""],
      ["blob", "application/octet-stream"],
      ["blob", "application/zip"],
      ["Letter 12.2024", "application/msword"],
      ["blob", "video/mpeg"],
      ["blob", "image/svg+xml"],
      ["blob", "image/heic"],
      ["blob", "application/x-sh"],
      ["blob", "constructor"],
      ["a.exe", "application/pdf"],
      ["a.exe.", "application/pdf"],
      ["a.exe. .", "application/pdf"],
      ["a.tar.gz", "text/plain"],
      ["a.pdf.exe", "application/pdf"]
    ] as const
    for (const [name, type] of refused) assert.isUndefined(identify(name, type), `${name} ${type}`)
    for (const format of extensions) {
      const { mimeType } = identify(`a.${format}`, "")!
      assert.strictEqual(formatOfType(mimeType), format)
      assert.isFalse(contradicts(format, mimeType))
    }
  })

  it("is that of another spelling, which the documentation lists", () => {
    const renamed = [
      ["jpg", ["jpe", "jfif", "pjpeg", "pjp"]],
      ["js", ["mjs"]],
      ["wav", ["wave"]],
      ["ogg", ["oga", "opus"]],
      ["webm", ["weba"]],
      ["mp4", ["m4v"]]
    ] as const
    for (const [format, others] of renamed) {
      for (const other of others) assert.strictEqual(identify(`a.b.${other}`, "")?.name, `a.b.${format}`)
    }
    const page = fs.readFileSync(path.resolve(import.meta.dirname, "../../src/http/README.md"), "utf8")
    assert.include(page, `- Formats: ${described}.\n`)
  })

  it("is found in a name of any length at once, of which 255 characters with the extension are kept", () => {
    const long = 8 * 1024 * 1024
    for (const part of [".", " ", ". ", ".1", "a", "a.", "\u{1f600}"]) {
      for (const [end, type] of [["!", "image/png"], [".png", ""], [".jfif", ""], [".PNG .", "image/png"]] as const) {
        const cpu = cpuTimer()
        const name = identify(part.repeat(long / part.length) + end, type)?.name ?? ""
        // With a time that is quadratic in the length it takes hours.
        assert.isBelow(cpu(), 5000, part)
        assert.isTrue(name.length <= 255 && name.length > 250 && name.isWellFormed(), part)
        assert.match(name, /\.(png|jpg)$/i, part)
      }
    }
  })

  it("gives the type of a file that declares none", () => {
    for (const declared of ["", "application/octet-stream", "file"]) {
      assert.strictEqual(identify("a.png", declared)?.mimeType, "image/png")
    }
    assert.strictEqual(identify("a.png", "image/png; x=y")?.mimeType, "image/png; x=y")
    assert.strictEqual(identify("a.csv", "text/plain")?.mimeType, "text/plain")
  })

  it("is not refused by the content of a file that a tool has written", () => {
    const names = fs.readdirSync(directory).filter((name) => name !== "README.md")
    const formats = new Set(names.map(formatOf))
    assert.deepStrictEqual(extensions.filter((format) => !formats.has(format) && !mayBeEmpty(format)), [])
    for (const name of names) {
      const format = formatOf(name)
      assert.isDefined(format, name)
      assert.isFalse(isDangerous(format!, fs.readFileSync(path.join(directory, name)).subarray(0, 256)), name)
    }
  })

  it("leaves a text free to say anything", () => {
    const texts = [
      "",
      "#!/bin/sh\necho hello\n",
      "MZ is how programs begin. ".repeat(10),
      "<html><script>",
      "<?php echo 1 ?>",
      "\xff\xfeM\0Z\0",
      "ELF",
      "%PDF-"
    ]
    for (const format of extensions.filter(mayBeEmpty)) {
      for (const text of texts) assert.isFalse(isDangerous(format, bytesOf(text)), `${format}: ${text}`)
    }
  })

  it("is refused for a program under whatever name, and for a page or script under that of a picture or sound", () => {
    const programs = [
      bytesOf("MZ", [0x90, 0, 3, 0, 0, 0, 4], [...Buffer.alloc(51)], [0x80, 0, 0, 0], "This program"),
      bytesOf("\x7fELF", [2, 1, 1, 0]),
      bytesOf([0xcf, 0xfa, 0xed, 0xfe, 7, 0, 0, 1]),
      bytesOf([0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 2]),
      bytesOf([0x4c, 0, 0, 0, 1, 0x14, 2, 0, 0, 0, 0, 0, 0xc0])
    ]
    const scripts = [
      "#!/bin/sh\nrm -rf /",
      "#! /usr/bin/env python",
      "<!DOCTYPE html><p>",
      "\xef\xbb\xbf \n<script>alert(1)</script>",
      "<svg onload=alert(1)>",
      "<?php system($_GET[0]) ?>"
    ].map((text) => bytesOf(text))
    for (const format of extensions) {
      for (const head of programs) assert.isTrue(isDangerous(format, head), `${format}: ${head.toString("hex")}`)
      for (const head of scripts) assert.strictEqual(isDangerous(format, head), !mayBeEmpty(format), format)
    }
  })
})

describe("a declared type", () => {
  it("fits as the many clients there are spell it", () => {
    const fitting: Readonly<Record<string, ReadonlyArray<string>>> = {
      png: ["image/png", "image/x-png", "IMAGE/PNG"],
      jpg: ["image/jpeg", "image/jpg", "image/pjpeg"],
      webp: ["image/webp"],
      gif: ["image/gif"],
      txt: ["text/plain; charset=utf-8", "text/markdown"],
      pdf: ["application/pdf", "application/x-pdf", "application/acrobat"],
      json: ["application/json", "text/json", "application/ld+json", "application/x-ndjson"],
      js: ["text/javascript", "application/javascript", "application/x-javascript", "application/ecmascript"],
      css: ["text/css"],
      html: ["text/html", "application/xhtml+xml"],
      csv: ["text/csv", "application/csv", "application/vnd.ms-excel", "text/comma-separated-values"],
      xml: ["text/xml", "application/xml", "application/rss+xml", "image/svg+xml"],
      docx: [
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/msword",
        "application/zip",
        "application/x-zip-compressed",
        "application/CDFV2-encrypted",
        "application/x-ole-storage"
      ],
      xls: ["application/vnd.ms-excel", "application/excel", "application/x-msexcel", "application/xls", "text/html"],
      xlsx: ["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "application/vnd.ms-excel"],
      mp3: ["audio/mpeg", "audio/mp3", "audio/x-mpeg-3"],
      wav: ["audio/wav", "audio/x-wav", "audio/vnd.wave"],
      ogg: ["audio/ogg; codecs=opus", "application/ogg", "video/ogg"],
      m4a: ["audio/mp4", "audio/x-m4a", "audio/aac", "video/mp4"],
      webm: ["video/webm", "audio/webm;codecs=opus"],
      mp4: ["video/mp4", "application/mp4", "audio/mp4"],
      mkv: ["video/x-matroska", "application/x-matroska", "video/matroska"]
    }
    const unspecific = ["", "text/plain", "application/octet-stream", "binary/octet-stream", "*/*", "file", "a/unknown"]
    for (const format of extensions) {
      for (const type of [...fitting[format] ?? ["none"], ...unspecific]) {
        assert.isFalse(contradicts(format, type), `${format}: ${type}`)
      }
    }
  })

  it("that nobody knows contradicts no name", () => {
    const unknown = words(`
      application/wps-office.docx application/kswps application/haansoftxlsx application/x-wps-document
      application/x-compressed inode/x-empty chemical/x-pdb x-world/x-vrml nonsense
    `)
    for (const format of extensions) {
      for (const type of unknown) assert.isFalse(contradicts(format, type), `${format}: ${type}`)
    }
  })

  it("of another kind contradicts the name", () => {
    const others = [
      "image/png\r\nX: y",
      `a/${"b".repeat(255)}`,
      "multipart/related; boundary=x",
      ...words(`
        application/x-msdownload application/vnd.microsoft.portable-executable application/x-sh application/java-archive
        application/gzip application/x-7z-compressed font/woff2 model/gltf-binary message/rfc822
        application/x-apple-diskimage application/x-ms-installer application/x-msi
        application/vnd.oasis.opendocument.text application/vnd.sun.xml.writer application/vnd.apple.pages
        application/x-httpd-php application/x-deb application/vnd.debian.binary-package application/x-rpm
        application/x-redhat-package-manager application/vnd.android.package-archive application/x-iso9660-image
        application/vnd.ms-cab-compressed application/hta application/x-perl application/x-python-code
        application/x-ms-shortcut application/vnd.ms-powerpoint application/mspowerpoint
        application/vnd.openxmlformats-officedocument.presentationml.presentation
        application/vnd.openxmlformats-officedocument.presentationml.slideshow application/rtf application/epub+zip
        application/x-mobipocket-ebook application/x-xz application/zstd application/x-gtar application/vnd.rar
        application/postscript application/x-shockwave-flash application/vnd.sqlite3
      `)
    ]
    for (const format of extensions) {
      for (const type of others) assert.isTrue(contradicts(format, type), `${format}: ${type}`)
    }
    const pairs = [
      ["png", "application/pdf"],
      ["png", "image/svg+xml"],
      ["png", "text/html"],
      ["txt", "image/png"],
      ["mp4", "image/png"],
      ["pdf", "image/png"],
      ["docx", "text/html"],
      ["csv", "application/pdf"]
    ] as const
    for (const [format, type] of pairs) assert.isTrue(contradicts(format, type), `${format}: ${type}`)
  })
})
