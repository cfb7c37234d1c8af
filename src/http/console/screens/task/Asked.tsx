/** What a task is asked: the assistant, the text, the files, and the task whose conversation goes on. */
import type { ComponentChildren } from "preact"
import { useEffect } from "preact/hooks"
import type { Task } from "../../../client/promise/Types.ts"
import * as assistants from "../../assistants.ts"
import { shortId } from "../../components/Basics.tsx"
import { Item } from "../../components/Content.tsx"
import { Paged } from "../../components/Paged.tsx"
import { askOf, isAskOf, lengthOf } from "../../json.ts"
import { href } from "../../Router.ts"

type Request = NonNullable<Task["request"]>

const Input = ({ input }: Pick<Request, "input">) => {
  const files = input.filter(({ type }) => type !== "text")
  const texts = input.filter(({ type }) => type === "text")
  const items = (shown: typeof texts) => (
    <Paged items={shown} what="items" weigh={lengthOf}>
      {(some) => some.map((item, index) => <Item key={index} item={item} />)}
    </Paged>
  )
  return (
    <>
      {files.length === 0 ? null : <div class="files">{items(files)}</div>}
      {texts.length === 0 || isAskOf({ input: texts }) ? null : (
        <details>
          <summary>The whole request</summary>
          <div class="request">{items(texts)}</div>
        </details>
      )}
    </>
  )
}

/** A request that is not kept has only its `children`, which are shown before the assistant. */
export const Asked = ({ children, isTitled = false, request }: {
  readonly request: Pick<Request, "assistant_id" | "input"> & Partial<Pick<Request, "continues">> | null | undefined
  /** The beginning of the text is the title of the screen. */
  readonly isTitled?: boolean
  readonly children?: ComponentChildren
}) => {
  useEffect(() => {
    if (assistants.listed.value === undefined) void assistants.load()
  }, [])
  const ask = askOf(request)
  return (
    <section class="request" aria-label="Request">
      <p class="byline detail">
        {children}
        {request == null ? null : (
          <span>
            To <bdi>{assistants.nameOf(request.assistant_id)}</bdi>
            {request.continues == null ? null : (
              <>
                , continues{" "}
                <a href={href(`/tasks/${request.continues}`)}>
                  <code>{shortId(request.continues)}</code>
                </a>
              </>
            )}
          </span>
        )}
      </p>
      {isTitled || ask === "" ? null : (
        <p class="ask">
          <bdi>{ask}</bdi>
        </p>
      )}
      {request == null ? null : <Input input={request.input} />}
    </section>
  )
}
