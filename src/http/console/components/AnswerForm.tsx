/** The pending tool calls of a task, each with its answer. All answers are sent together; drafts stay in this tab. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks"
import { ConflictError } from "../../client/promise/ApiErrors.ts"
import { randomId } from "../../client/promise/Transport.ts"
import type { ToolCall } from "../../client/promise/Types.ts"
import { submitting, useAction } from "../actions.ts"
import { active } from "../active.ts"
import { type AnswerKind, type AnswerShape, type Draft, resultOf, shapeOf, type Tools } from "../answers.ts"
import { client } from "../api.ts"
import { keepDraft, loadDraft } from "../drafts.ts"
import { parse } from "../json.ts"
import { notify } from "../messages.ts"
import { skeletonOf } from "../schemaForm.ts"
import { type Problems, type Typed, typedOf } from "../typedForm.ts"
import { Segments } from "./Basics.tsx"
import { Values } from "./JsonTree.tsx"
import { SchemaForm } from "./SchemaForm.tsx"
import { Problem } from "./Screen.tsx"

/** The parts of a task that an answer form needs. */
export interface Interrupted {
  readonly uuid: string
  readonly pending_tool_calls?: ReadonlyArray<ToolCall>
}

const choices: ReadonlyArray<readonly [kind: AnswerKind, label: string]> = [
  ["form", "Form"],
  ["approve", "Approve"],
  ["edit", "Approve with changes"],
  ["decline", "Decline"],
  ["text", "Text"],
  ["json", "JSON"],
  ["failed", "The tool failed"]
]

const Typing = ({ draft, label, onChange, problem }: {
  readonly draft: Draft
  readonly label: string
  readonly problem: string | undefined
  readonly onChange: (draft: Draft) => void
}) => {
  const isJson = draft.kind === "json"
  const text = isJson ? draft.json : draft.text
  const wrong = isJson && text !== "" && parse(text) === undefined ? "This is not valid JSON" : problem
  return (
    <>
      <textarea
        class={isJson ? "code" : ""}
        aria-label={draft.kind === "failed" ? `What went wrong in ${label}` : `Answer to ${label}`}
        aria-invalid={wrong !== undefined}
        rows={isJson ? 5 : 3}
        spellcheck={!isJson}
        value={text}
        onInput={({ currentTarget: { value } }) =>
          onChange(isJson ? { ...draft, json: value } : { ...draft, text: value })}
      />
      {wrong === undefined ? null : <p class="field-error">{wrong}</p>}
    </>
  )
}

/** Offers what the model proposes for the decisions too, unless it is chosen already. */
const Proposal = ({ onTake, proposed, typed }: {
  readonly proposed: Typed
  readonly typed: Typed
  readonly onTake: (typed: Typed) => void
}) =>
  Object.entries(proposed).every(([key, value]) => JSON.stringify(typed[key]) === JSON.stringify(value)) ?
    null :
    (
      <button type="button" class="button" onClick={() => onTake({ ...typed, ...proposed })}>
        Fill in what the model proposes
      </button>
    )

const CallForm = ({ call, draft, onChange, problem, problems, shape: { edited, fields, kinds, schema } }: {
  readonly call: ToolCall
  readonly draft: Draft
  readonly shape: AnswerShape
  readonly problem: string | undefined
  readonly problems: Problems
  readonly onChange: (draft: Draft) => void
}) => {
  const label = call.name.slice(0, 100)
  const typing = draft.kind === "form" && fields !== undefined
    ? { name: "form", fields, proposed: typedOf(fields, call.arguments) } as const
    : draft.kind === "edit" && edited !== undefined
    ? { name: "edit", fields: edited.fields, proposed: edited.typed } as const
    : undefined
  const take = (typed: Typed) => typing === undefined || onChange({ ...draft, [typing.name]: typed })
  const isTyped = draft.kind === "text" || draft.kind === "json" || draft.kind === "failed"
  return (
    <fieldset class="call-form" data-problem={problem === undefined ? undefined : ""}>
      <legend>
        <code>{label}</code>
      </legend>
      {Object.keys(call.arguments).length === 0
        ? <p class="hint">Called without arguments</p>
        : draft.kind === "edit"
        ? null
        : <Values value={call.arguments} />}
      <Segments
        label={`Kind of answer to ${label}`}
        name={`answer-${call.id}`}
        options={choices.filter(([kind]) => kinds.includes(kind))}
        value={draft.kind}
        onChoose={(kind) => onChange({ ...draft, kind })}
      />
      {typing === undefined ? null : (
        <>
          <Proposal proposed={typing.proposed} typed={draft[typing.name]} onTake={take} />
          <SchemaForm fields={typing.fields} typed={draft[typing.name]} problems={problems} onChange={take} />
        </>
      )}
      {draft.kind === "json" && draft.json === "" && schema !== undefined
        ? (
          <button
            type="button"
            class="button"
            onClick={() => onChange({ ...draft, json: JSON.stringify(skeletonOf(schema), null, 2) })}
          >
            Insert what must be given
          </button>
        )
        : null}
      {isTyped
        ? <Typing draft={draft} label={label} problem={problem} onChange={onChange} />
        : problem === undefined || Object.keys(problems).length > 0
        ? null
        : <p class="field-error">{problem}</p>}
    </fieldset>
  )
}

/** The drafts of a task's pending calls, and their answers. */
const useAnswers = ({ pending_tool_calls: calls = [], uuid }: Interrupted, tools: Tools) => {
  const ids = calls.map(({ id }) => id).join("\n")
  const shaped = useMemo(
    () =>
      calls.map((call) => ({
        call,
        shape: shapeOf(Object.hasOwn(tools, call.name) ? tools[call.name] : undefined, call.arguments)
      })),
    [ids, tools]
  )
  const load = () => new Map(shaped.map(({ call: { id }, shape }) => [id, loadDraft(uuid, id, shape)]))
  const [drafts, setDrafts] = useState(load)
  useEffect(() => setDrafts(load()), [shaped])
  const entries = shaped.map(({ call, shape }) => {
    const draft = drafts.get(call.id) ?? loadDraft(uuid, call.id, shape)
    return { call, draft, shape, answer: resultOf(call.id, draft, shape) }
  })
  return {
    entries,
    results: entries.flatMap(({ answer }) => "result" in answer ? [answer.result] : []),
    change: (id: string, draft: Draft) => {
      keepDraft(uuid, id, draft)
      setDrafts(new Map(drafts).set(id, draft))
    },
    forget: () => {
      for (const { id } of calls) keepDraft(uuid, id, undefined)
      setDrafts(load())
    }
  }
}

/** Calls of one interrupt; the service allows a thousand. */
const maxShown = 50

export const AnswerForm = ({ onDone, task, tools }: {
  readonly task: Interrupted
  /** Those of the task's request, where it is known. */
  readonly tools: Tools
  readonly onDone: () => void
}) => {
  const { change, entries, forget, results } = useAnswers(task, tools)
  const [isChecked, setChecked] = useState(false)
  const form = useRef<HTMLFormElement>(null)
  // The same answers take effect once, however often they are sent.
  const key = useMemo(randomId, [JSON.stringify(results)])

  const { error, isBusy, run } = useAction(async () => {
    const isComplete = results.length === entries.length
    setChecked(!isComplete)
    if (!isComplete) {
      requestAnimationFrame(() => {
        const wrong = form.current?.querySelector<HTMLElement>("[data-problem] [aria-invalid=true]") ??
          form.current?.querySelector<HTMLElement>("[data-problem]")
        const control = wrong?.matches("fieldset") === true
          ? wrong.querySelector<HTMLElement>("input, textarea, select")
          : wrong
        control?.focus()
      })
      return
    }
    try {
      await client.tasks.submitToolResults(task.uuid, results, { idempotencyKey: key })
      forget()
      notify("Answers sent")
      active.refresh()
    } catch (failure) {
      // Somebody else answered or canceled; the drafts stay.
      if (!(failure instanceof ConflictError)) throw failure
      notify("The task no longer waits for these answers")
    } finally {
      onDone()
    }
  })
  return (
    <form
      ref={form}
      class="answer card"
      aria-label="Answers to the tool calls"
      noValidate
      onSubmit={submitting(() => run())}
    >
      {entries.slice(0, maxShown).map(({ answer, call, draft, shape }) => {
        const missing = isChecked && "problem" in answer ? answer : undefined
        const problems = missing?.problems ?? {}
        const onChange = (next: Draft) => change(call.id, next)
        return <CallForm key={call.id} problem={missing?.problem} {...{ call, draft, shape, problems, onChange }} />
      })}
      <div class="answer-send">
        <Problem error={error} />
        {entries.length > maxShown ?
          <p>{entries.length} calls wait: more than this page can answer. Use the API.</p> :
          (
            <button type="submit" class="button primary" aria-disabled={isBusy}>
              {entries.length === 1 ? "Send answer" : `Send ${entries.length} answers`}
            </button>
          )}
      </div>
    </form>
  )
}
