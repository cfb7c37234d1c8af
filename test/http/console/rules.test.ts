/** Rules of the console that need no browser. */
import { assert, describe, it } from "vitest"
import { resultOf, shapeOf } from "../../../src/http/console/answers.ts"
import { duration, relative } from "../../../src/http/console/clock.ts"
import { csvOf } from "../../../src/http/console/csv.ts"
import { jsonIn, saidIn } from "../../../src/http/console/json.ts"
import { linkOf } from "../../../src/http/console/links.ts"
import { bodyOf, emptyForm, fieldErrors, formOf, nothingCarried } from "../../../src/http/console/newTask.ts"
import { phasesOf } from "../../../src/http/console/phases.ts"
import { linked, ownLabels, relatedTo } from "../../../src/http/console/related.ts"
import { fieldsOf, skeletonOf } from "../../../src/http/console/schemaForm.ts"
import { keyOf, outputOf, typedOf } from "../../../src/http/console/typedForm.ts"
import { boundedSchema } from "../../kit/UglyTasks.ts"

describe("saidIn", () => {
  it("finds something in a turn of any shape", () => {
    const text = { type: "text", text: "Hi" }
    assert.deepStrictEqual(saidIn({ output: [text], messages: [] }), [text])
    assert.deepStrictEqual(saidIn({ output: "Hi" }), ["Hi"])
    assert.deepStrictEqual(saidIn({ output: { total: 3 } }), [{ total: 3 }])
    assert.deepStrictEqual(
      saidIn({ output: [], messages: [{ role: "assistant", content: "Hi" }, { role: "user", content: "No" }] }),
      ["Hi"]
    )
    assert.deepStrictEqual(saidIn({ answer: 42 }), [{ answer: 42 }])
    assert.deepStrictEqual(saidIn("Hi"), ["Hi"])
    assert.deepStrictEqual(saidIn([1, 2]), [[1, 2]])
    for (
      const turn of [null, undefined, {}, { output: null }, { output: [], messages: [], metadata: { model: "x" } }]
    ) {
      assert.deepStrictEqual(saidIn(turn), [])
    }
  })

  it("recognizes a text that is nothing but JSON", () => {
    assert.deepStrictEqual(jsonIn("{\"a\":1}"), { a: 1 })
    assert.deepStrictEqual(jsonIn("```json\n[1]\n```"), [1])
    for (const text of ["1", "\"a\"", "{a}", "Result: {}", "```js\n{}\n```", ""]) assert.isUndefined(jsonIn(text), text)
  })
})

describe("linkOf", () => {
  const base = new URL("https://files.example/storage/")

  it("encodes a path by segments", () => {
    assert.strictEqual(linkOf(base, "a b/c?d#e/ü.png"), "https://files.example/storage/a%20b/c%3Fd%23e/%C3%BC.png")
  })

  it("refuses a path that could lead elsewhere", () => {
    for (
      const path of [
        "",
        "/a",
        "a//b",
        "../a",
        "a/../b",
        "./a",
        "https://evil.example",
        "javascript:alert(1)",
        "a\\b",
        "//evil.example",
        "\ud800",
        "a".repeat(3000)
      ]
    ) {
      assert.isUndefined(linkOf(base, path), path.slice(0, 50))
    }
  })
})

describe("fieldsOf", () => {
  const schema = {
    type: "object",
    required: ["name", "tags"],
    properties: {
      name: { type: "string", title: "Full name" },
      age: { type: "integer" },
      price: { type: "number" },
      agreed: { type: "boolean" },
      size: { enum: ["S", "L"] },
      tags: { type: "array", items: { enum: ["a", "b"] } },
      address: { type: "object", required: ["city"], properties: { city: { type: "string" } } }
    }
  }

  it("makes a form and its object", () => {
    const fields = fieldsOf(schema) ?? []
    assert.deepStrictEqual(fields.map(({ isRequired, kind, path }) => [path.join("."), kind, isRequired]), [
      ["name", "text", true],
      ["age", "integer", false],
      ["price", "number", false],
      ["agreed", "boolean", false],
      ["size", "one", false],
      ["tags", "many", true],
      ["address.city", "text", true]
    ])
    const typed = { name: "Ann", age: " 7 ", price: "1.5", size: "S", tags: [], "address.city": "Oslo" }
    assert.deepStrictEqual(outputOf(schema, fields, typed), {
      value: { name: "Ann", age: 7, price: 1.5, size: "S", tags: [], address: { city: "Oslo" } }
    })
    assert.deepStrictEqual(outputOf(schema, fields, { age: "1.5", price: "0x10" }), {
      problems: {
        name: "Must be given",
        age: "Must be a whole number",
        price: "Must be a number",
        tags: "Must be given"
      }
    })
  })

  it("shows objects two levels deep, whose fields are required once they have a value", () => {
    const schema = {
      type: "object",
      properties: {
        shop: {
          type: "object",
          required: ["address"],
          properties: {
            name: { type: "string" },
            address: {
              type: "object",
              required: ["city"],
              properties: { city: { type: "string" }, zip: { type: "string" } }
            }
          }
        }
      }
    }
    const fields = fieldsOf(schema) ?? []
    assert.deepStrictEqual(fields.map(keyOf), ["shop.name", "shop.address.city", "shop.address.zip"])
    assert.deepStrictEqual(outputOf(schema, fields, {}), { value: {} })
    assert.deepStrictEqual(outputOf(schema, fields, { "shop.name": "X" }), {
      problems: { "shop.address.city": "Must be given" }
    })
    assert.deepStrictEqual(outputOf(schema, fields, { "shop.address.city": "Oslo" }), {
      value: { shop: { address: { city: "Oslo" } } }
    })
  })

  it("takes what the model proposes where a field can show it", () => {
    const fields = fieldsOf(schema) ?? []
    assert.deepStrictEqual(
      typedOf(fields, { name: "Ann", age: 7, agreed: false, size: "M", tags: ["a"], address: { city: 3 }, price: "1" }),
      { name: "Ann", age: "7", agreed: false, tags: ["a"] }
    )
  })

  it("has a skeleton of what must be given", () => {
    assert.deepStrictEqual(skeletonOf(schema), { name: "", tags: [] })
    const list = {
      type: "array",
      minItems: 1,
      items: { type: "object", required: ["n", "c"], properties: { n: { type: "integer" }, c: { const: 1 } } }
    }
    assert.deepStrictEqual(skeletonOf(list), [{ n: null, c: 1 }])
    const endless = JSON.parse(`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}}`)
    assert.deepStrictEqual(skeletonOf(endless), { a: null })
  })

  it("leaves everything else to the JSON editor", () => {
    const inner = { type: "object", properties: { b: { type: "object", properties: { c: { type: "string" } } } } }
    const nested = {
      type: "object",
      properties: { a: { type: "object", properties: { x: inner } } }
    }
    const many = {
      type: "object",
      properties: Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`f${index}`, { type: "string" }]))
    }
    for (
      const schema of [
        undefined,
        null,
        1,
        [],
        {},
        { type: "array" },
        { type: "object", properties: {} },
        { type: "object", properties: { a: { $ref: "#" } } },
        nested,
        many
      ]
    ) {
      assert.isUndefined(fieldsOf(schema))
    }
  })

  it("does not touch prototypes", () => {
    const schema = JSON.parse(
      `{"type":"object","properties":{"__proto__":{"type":"object","properties":{"hacked":{"type":"string"}}}}}`
    )
    const fields = fieldsOf(schema) ?? []
    assert.isFalse("hacked" in {})
    outputOf(schema, fields, { "__proto__.hacked": "yes" })
    assert.isFalse("hacked" in {})
  })
})

describe("answers by a schema", () => {
  const right = { approved: true, amount: "189.9", reason: "Lost by the carrier" }

  it("assume nothing: what nobody answered is missing", () => {
    const fields = fieldsOf(boundedSchema) ?? []
    const read = outputOf(boundedSchema, fields, {})
    assert.deepStrictEqual(read, {
      problems: { approved: "Must be given", amount: "Must be given", reason: "Must be given" }
    })
    assert.deepStrictEqual(outputOf(boundedSchema, fields, { ...right, approved: false, order: " " }), {
      value: { approved: false, amount: 189.9, reason: right.reason }
    })
  })

  const wrong: ReadonlyArray<
    readonly [keyword: string, field: string, value: string | ReadonlyArray<string>, message: RegExp]
  > = [
    ["required", "reason", "", /Must be given/],
    ["type", "amount", "12,50", /Must be a number/],
    ["minimum", "amount", "0", /At least 0.01/],
    ["maximum", "amount", "999", /At most 189.9/],
    ["multipleOf", "amount", "1.005", /A multiple of 0.01/],
    ["exclusiveMinimum", "parcels", "0", /More than 0/],
    ["exclusiveMaximum", "parcels", "10", /Less than 10/],
    ["integer", "parcels", "1e-1", /Must be a whole number/],
    ["minLength", "reason", "lost", /At least 10 characters/],
    ["maxLength", "reason", "x".repeat(81), /At most 80 characters/],
    ["pattern", "order", "2026-11-b-0417", /Must match/],
    ["format email", "contact", "marta@", /An email address/],
    ["format date", "due", "2026-02-30", /A date like/],
    ["format uuid", "reference", "17", /A UUID/],
    ["format uri", "tracking", "nowhere", /An address like/],
    ["format time", "pickup", "25:61", /A time like/],
    ["format date-time", "decided", "2026-11-23", /A moment like/],
    ["enum of numbers", "priority", "9", /Must be one of the choices/],
    ["enum", "shipping", "pigeon", /Must be one of the choices/],
    ["minItems", "tags", [], /Choose at least 1/],
    ["maxItems", "tags", ["lost", "damaged", "late"], /Choose at most 2/],
    ["nested minLength", "address.city", "Y", /At least 2 characters/],
    ["nested required", "address.street", "Main road", /Must be given/]
  ]

  for (const [keyword, field, value, message] of wrong) {
    it(`refuse a wrong value: ${keyword}`, () => {
      const read = outputOf(boundedSchema, fieldsOf(boundedSchema) ?? [], { ...right, [field]: value })
      assert.isTrue("problems" in read)
      if (!("problems" in read)) return
      const at = keyword === "nested required" ? "address.city" : field
      assert.deepStrictEqual(Object.keys(read.problems), [at])
      assert.match(read.problems[at] ?? "", message)
    })
  }

  it("have choices of any plain value, and constants that nobody types", () => {
    const fields = fieldsOf(boundedSchema) ?? []
    const kinds = Object.fromEntries(fields.map((each) => [keyOf(each), each.kind]))
    assert.deepInclude(kinds, { priority: "one", currency: "constant", due: "text" })
    const { value } = outputOf(boundedSchema, fields, { ...right, priority: "2" }) as { value: object }
    assert.deepStrictEqual(value, { approved: true, amount: 189.9, reason: right.reason, priority: 2 })
    const schema = { type: "object", required: ["kind"], properties: { kind: { const: 7 }, note: { type: "string" } } }
    assert.deepStrictEqual(outputOf(schema, fieldsOf(schema) ?? [], {}), { value: { kind: 7 } })
  })

  it("report everything at once", () => {
    const read = outputOf(boundedSchema, fieldsOf(boundedSchema) ?? [], { amount: "999", parcels: "1.5", order: "17" })
    assert.deepStrictEqual(read, {
      problems: {
        approved: "Must be given",
        amount: "At most 189.9",
        parcels: "Must be a whole number",
        reason: "Must be given",
        order: "Must match ^2026-[0-9]{2}-[A-Z]-[0-9]{4}$"
      }
    })
  })

  it("follow references, and take what may be null for what it is otherwise", () => {
    const schema = {
      type: "object",
      required: ["size"],
      properties: {
        size: { $ref: "#/$defs/Size" },
        note: { anyOf: [{ type: "string" }, { type: "null" }], title: "Note" },
        count: { type: ["integer", "null"] },
        way: { oneOf: [{ const: "a", title: "By air" }, { const: "s", title: "By sea" }] }
      },
      $defs: { Size: { enum: ["S", "L"] } }
    }
    const fields = fieldsOf(schema) ?? []
    assert.deepStrictEqual(fields.map(({ kind, label }) => [label, kind]), [
      ["size", "one"],
      ["Note", "text"],
      ["count", "integer"],
      ["way", "one"]
    ])
    assert.deepStrictEqual(outputOf(schema, fields, { size: "S", way: "By sea" }), { value: { size: "S", way: "s" } })
    const endless = { type: "object", properties: { a: { $ref: "#/properties/a" }, b: { $ref: "#/%" } } }
    assert.isUndefined(fieldsOf(endless))
  })

  it("have rows for lists of objects and of plain values, with problems at their places", () => {
    const schema = {
      type: "object",
      required: ["lines"],
      properties: {
        lines: {
          type: "array",
          minItems: 1,
          items: {
            type: "object",
            required: ["sku", "count"],
            properties: { sku: { type: "string", minLength: 2 }, count: { type: "integer", minimum: 1 } }
          }
        },
        days: { type: "array", items: { type: "string", format: "date" } }
      }
    }
    const fields = fieldsOf(schema) ?? []
    const proposed = { lines: [{ sku: "A1", count: 2 }, { sku: "B2", count: 1 }], days: ["2026-12-01"] }
    const typed = typedOf(fields, proposed)
    assert.deepStrictEqual(outputOf(schema, fields, typed), { value: proposed })
    const wrong = { lines: { rows: [{ sku: "A1" }, { sku: "B2", count: "x" }] }, days: { rows: [{}] } }
    assert.deepStrictEqual(outputOf(schema, fields, wrong), {
      problems: {
        "lines.0.count": "Must be given",
        "lines.1.count": "Must be a whole number",
        "days.0": "Must be given"
      }
    })
    const small = {
      lines: { rows: [{ sku: "A", count: "1" }, { sku: "B2", count: "0" }] },
      days: { rows: [{ value: "soon" }] }
    }
    assert.deepStrictEqual(outputOf(schema, fields, small), {
      problems: {
        "lines.0.sku": "At least 2 characters",
        "lines.1.count": "At least 1",
        "days.0": "A date like 2026-11-23"
      }
    })
    assert.deepStrictEqual(outputOf(schema, fields, {}), { problems: { lines: "Must be given" } })
    assert.deepStrictEqual(outputOf(schema, fields, { lines: { rows: [] } }), {
      problems: { lines: "Choose at least 1" }
    })
    const deep = { type: "array", items: { type: "object", properties: { more: schema.properties.lines } } }
    assert.isUndefined(fieldsOf({ type: "object", properties: { deep } }))
  })

  it("show a moment in the zone of the browser, and give it back as it was", () => {
    const schema = {
      type: "object",
      properties: { at: { type: "string", format: "date-time" }, from: { type: "string", format: "time" } }
    }
    const fields = fieldsOf(schema) ?? []
    const value = { at: "2026-11-23T10:31:05Z", from: "08:00:00Z" }
    const typed = typedOf(fields, value)
    assert.match(String(typed["at"]), /^2026-11-2\dT\d\d:\d\d:05$/)
    assert.strictEqual(typed["from"], "08:00:00")
    assert.deepStrictEqual(outputOf(schema, fields, typed), { value })
  })

  it("begin with what the model proposes, but for decisions", () => {
    const shape = shapeOf({ output: boundedSchema }, { amount: 12, approved: true, priority: 2, tags: ["lost"] })
    assert.deepStrictEqual(shape.proposed, { amount: "12" })
  })

  it("approve other arguments than the model gave, by the tool's parameters or without them", () => {
    const draft = { text: "", json: "", form: {}, kind: "edit" } as const
    const given = { to: "Ann", parcels: 2 }
    const parameters = {
      type: "object",
      required: ["to"],
      properties: { to: { type: "string" }, parcels: { type: "integer", maximum: 5 } }
    }
    for (const tool of [{ parameters }, {}]) {
      const shape = shapeOf(tool, given)
      assert.deepStrictEqual(shape.kinds, ["approve", "edit", "decline", "text", "json", "failed"])
      const edit = { ...shape.edited?.typed, parcels: "3" }
      assert.deepStrictEqual(resultOf("call", { ...draft, edit }, shape), {
        result: { tool_call_id: "call", output: { approved: true, arguments: { to: "Ann", parcels: 3 } } }
      })
    }
    const shape = shapeOf({ parameters }, given)
    assert.deepStrictEqual(resultOf("call", { ...draft, edit: { parcels: "9" } }, shape), {
      problem: "Check the fields",
      problems: { to: "Must be given", parcels: "At most 5" }
    })
    assert.deepStrictEqual(resultOf("call", { ...draft, edit: { to: "Ann", parcels: "9" } }, shape), {
      problem: "Check the fields",
      problems: { parcels: "At most 5" }
    })
    assert.notInclude(shapeOf({}, {}).kinds, "edit")
    assert.notInclude(shapeOf({ output: boundedSchema }, given).kinds, "edit")
  })

  it("are checked however they are typed, and by rules that no field shows", () => {
    const schema = {
      type: "object",
      required: ["n"],
      properties: { n: { type: "integer", maximum: 3 } },
      maxProperties: 1
    }
    const draft = { text: "", form: {}, edit: {}, kind: "json" } as const
    const read = (json: string) => resultOf("call", { ...draft, json }, shapeOf({ output: schema }))
    assert.match(JSON.stringify(read(`{"n":4}`)), /n: At most 3/)
    assert.match(JSON.stringify(read(`{"n":3,"m":1}`)), /does not match/)
    assert.deepStrictEqual(read(`{"n":3}`), { result: { tool_call_id: "call", output: { n: 3 } } })
    assert.deepStrictEqual(shapeOf({ output: schema }).kinds, ["form", "json", "failed"])
    assert.deepStrictEqual(shapeOf().kinds, ["approve", "decline", "text", "json", "failed"])
    const either = { type: "object", properties: { a: { type: "string" }, b: { type: "string" } }, minProperties: 2 }
    assert.deepNestedInclude(outputOf(either, fieldsOf(either) ?? [], { a: "x" }), { problems: {} })
  })

  it("are not refused because a schema is broken", () => {
    for (const schema of [{ $ref: "#/nowhere" }, { pattern: "(" }, { enum: 1 }, { $ref: "#" }, 7, null]) {
      assert.deepStrictEqual(
        resultOf("call", { kind: "text", text: "fine", json: "", form: {}, edit: {} }, shapeOf({ output: schema })),
        { result: { tool_call_id: "call", output: "fine" } },
        JSON.stringify(schema)
      )
    }
  })
})

describe("labels that link tasks", () => {
  const [one, other] = ["019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913", "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d914"]

  it("name the task that one continues or repeats, and take the place of those of the earlier task", () => {
    assert.deepStrictEqual(linked({ project: "x", repeats: one }, "continues", other), {
      project: "x",
      continues: other
    })
    assert.deepStrictEqual(linked(null, "repeats", one), { repeats: one })
    assert.deepStrictEqual(relatedTo({ metadata: { continues: one, repeats: "soon" } }), [{
      word: "Continues",
      uuid: one
    }])
  })

  it("leave the user's own labels alone", () => {
    assert.deepStrictEqual(ownLabels({ repeats: "daily", a: "b" }), { repeats: "daily", a: "b" })
    assert.deepStrictEqual(linked({ repeats: "daily" }, "repeats", one), { repeats: "daily" })
    const full = Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`k${index}`, "v"]))
    assert.deepStrictEqual(linked(full, "continues", one), full)
  })
})

describe("csvOf", () => {
  it("quotes cells, and lets no text become a formula", () => {
    assert.strictEqual(
      csvOf([["a", 1, null], ["x,y", "\"q\"", "=1+1"], ["-1", "@a", -1]]),
      "a,1,\r\n\"x,y\",\"\"\"q\"\"\",'=1+1\r\n'-1,'@a,-1"
    )
  })
})

describe("bodyOf", () => {
  const form = { ...emptyForm, assistant_id: "7", text: "hello" }

  it("omits empty fields", () => {
    assert.deepStrictEqual(bodyOf(form, [], undefined, nothingCarried), {
      body: { assistant_id: 7, input: [{ type: "text", text: "hello" }] }
    })
  })

  it("reports problems without the service", () => {
    const problems = {
      assistant_id: "Must be given",
      text: "Type something, or add a file",
      metadata: "Write each as key: value",
      client_tools: "This is not a JSON array",
      max_execution_time: "Must be a whole number"
    }
    assert.deepStrictEqual(
      bodyOf(
        { ...emptyForm, client_tools: "{}", metadata: "a: b\nc", max_execution_time: "1.5" },
        [],
        undefined,
        nothingCarried
      ),
      {
        problems
      }
    )
  })

  it("asks again for what a kept request says", () => {
    const file = { type: "file", file: { id: "1", name: "a", mime_type: "b" } } as const
    const asked = {
      assistant_id: 7,
      input: [{ type: "text", text: "hello" }, file],
      turns: [{ role: "user", content: "before" }],
      continues: null,
      client_tools: [{ type: "function", name: "look" }],
      llm_model_id: null,
      image_generator_id: 3,
      options: null,
      max_execution_time: 60,
      priority: 4,
      callback_url: "https://a.example/",
      metadata: { project: "x", url: "https://shop.example" }
    } as const
    const { carried, form, items } = formOf(asked)
    const { continues: _, llm_model_id: __, options: ___, ...rest } = asked
    assert.deepStrictEqual(bodyOf(form, items, undefined, carried), { body: rest })
    const { carried: odd, form: other } = formOf({ ...asked, metadata: { "a:b": "c\nd" } })
    assert.deepStrictEqual([odd.metadata, other.metadata], [{ "a:b": "c\nd" }, ""])
    // A user may give no more than 5.
    assert.strictEqual(formOf({ ...asked, priority: 9 }).carried.priority, 5)
  })

  it("puts the service's messages at the fields of the form", () => {
    const file = { type: "file", file: { id: "1", name: "a", mime_type: "b" } } as const
    const made = bodyOf(form, [file], undefined, nothingCarried)
    assert.isTrue("body" in made)
    if (!("body" in made)) return
    const errors = {
      "input.1.file.id": ["Wrong"],
      "client_tools.0.name": ["Taken"],
      assistant_id: ["Too large", "Odd"],
      body: ["Broken"]
    }
    assert.deepStrictEqual(fieldErrors(errors, made.body), {
      files: "input.1.file.id: Wrong",
      client_tools: "client_tools.0.name: Taken",
      assistant_id: "Too large. Odd",
      text: "Broken"
    })
  })
})

describe("moments", () => {
  it("are durations of two units, and ages of one", () => {
    assert.deepStrictEqual([0, 999, 1500, 12_400, 200_000, 3_600_000, 93_600_000].map(duration), [
      "0 ms",
      "999 ms",
      "1.5 s",
      "12 s",
      "3 min 20 s",
      "1 h",
      "1 d 2 h"
    ])
    assert.deepStrictEqual([0, 5000, 65_000, 7_200_000].map((ago) => relative(1e12 - ago, 1e12)), [
      "now",
      "5 s ago",
      "1 min ago",
      "2 h ago"
    ])
    assert.strictEqual(relative(1e12 + 60_000, 1e12), "in 1 min")
  })

  it("divide the life of a task into phases", () => {
    const event = (status: "pending" | "processing" | "completed", second: number) => ({
      uuid: "u",
      revision: second,
      status,
      event: status,
      occurred_at: `2026-11-22T10:00:0${second}.000000Z`
    })
    const events = [event("pending", 0), event("processing", 1), event("processing", 2), event("completed", 5)]
    assert.deepStrictEqual(phasesOf(events, 0).map(({ from, status, to }) => [status, to - from]), [["pending", 1000], [
      "processing",
      4000
    ]])
    assert.deepStrictEqual(
      phasesOf(events.slice(0, 2), Date.parse("2026-11-22T10:00:09Z")).map(({ from, to }) => to - from),
      [1000, 8000]
    )
  })
})
