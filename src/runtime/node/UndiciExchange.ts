/** One HTTP request over undici whose response body is discarded, unless the caller wants it. */
import type { Dispatcher } from "@effect/platform-node/Undici"

interface Handlers {
  /** Called with the final response head; 1xx responses are skipped. */
  readonly onHead: (
    status: number,
    headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  ) => void
  readonly onData?: (chunk: Uint8Array) => void
  /** Called once, after the last byte or with the error that ended the exchange. */
  readonly onEnd: (error: Error | undefined) => void
}

/**
 * Sends the request and reads the response body, which frees the connection for reuse. A body of more than
 * `maxBodyBytes` aborts the exchange. Returns a function that aborts it, at any time.
 */
export const exchange = (
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  maxBodyBytes: number,
  { onData, onEnd, onHead }: Handlers
) => {
  let controller: Dispatcher.DispatchController | undefined
  let abortReason: Error | undefined
  let received = 0
  const abort = (reason: string) => {
    abortReason = new Error(reason)
    controller?.abort(abortReason)
  }
  dispatcher.dispatch(request, {
    onRequestStart: (started) => {
      controller = started
      if (abortReason !== undefined) started.abort(abortReason)
    },
    onResponseStart: (_, status, headers) => {
      if (status >= 200) onHead(status, headers)
    },
    onResponseData: (_, chunk) => {
      received += chunk.length
      if (received > maxBodyBytes) abort("the response is too long")
      else onData?.(chunk)
    },
    onResponseEnd: () => onEnd(undefined),
    onResponseError: (_, error) => onEnd(error)
  })
  return abort
}
