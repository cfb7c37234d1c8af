/** What a task was asked: the assistant, the text, the files, and the task whose conversation goes on. */
import { useEffect } from "preact/hooks"
import type { Task } from "../../../client/promise/Types.ts"
import * as assistants from "../../assistants.ts"
import { shortId } from "../../components/Basics.tsx"
import { Item } from "../../components/Content.tsx"
import { Paged } from "../../components/Paged.tsx"
import { askOf, isAskOf, lengthOf } from "../../json.ts"
import { href } from "../../Router.ts"

export const Asked = ({ request }: { readonly request: NonNullable<Task["request"]> }) => {
  useEffect(() => {
    if (assistants.listed.value === undefined) void assistants.load()
  }, [])
  const files = request.input.filter(({ type }) => type !== "text")
  const texts = request.input.filter(({ type }) => type === "text")
  const ask = askOf(request)
  const items = (shown: typeof texts) => (
    <Paged items={shown} what="items" weigh={lengthOf}>
      {(some) => some.map((item, index) => <Item key={index} item={item} />)}
    </Paged>
  )
  return (
    <section class="request" aria-label="Request">
      <p class="detail">
        To <bdi>{assistants.nameOf(request.assistant_id)}</bdi>
        {request.continues === null ? null : (
          <>
            , continues{" "}
            <a href={href(`/tasks/${request.continues}`)}>
              <code>{shortId(request.continues)}</code>
            </a>
          </>
        )}
      </p>
      {ask === "" ? null : <p class="ask" dir="auto">{ask}</p>}
      {files.length === 0 ? null : <div class="files">{items(files)}</div>}
      {texts.length === 0 || isAskOf({ input: texts }) ? null : (
        <details>
          <summary>The whole request</summary>
          <div class="request">{items(texts)}</div>
        </details>
      )}
    </section>
  )
}
