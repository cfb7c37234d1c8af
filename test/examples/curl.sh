#!/bin/sh
# The interface with curl alone: upload, create, wait, answer a tool call, list.
set -eu
url=${TASK_SERVICE_URL:-http://127.0.0.1:3000}
auth="Authorization: Bearer ${TASK_SERVICE_TOKEN:?}"

# Prints the first value of a string field.
field() { sed 's/.*"'"$1"'": *"\([^"]*\)".*/\1/'; }

post() { curl -fsS "$url$1" -H "$auth" -H 'Content-Type: application/json' -d "$2"; }

# The result of an upload is an item of `input` as it is.
item=$(printf 'The meeting is on Tuesday.\n' | curl -fsS "$url/api/files" -H "$auth" -F 'file=@-;filename=notes.txt')
uuid=$(post /api/tasks "{\"assistant_id\": 1, \"input\": [{\"type\": \"text\", \"text\": \"When is the meeting?\"}, $item]}" | field uuid)
echo "asked: $(curl -fsS "$url/api/tasks/$uuid?wait=60" -H "$auth" | field status)"

# A client tool interrupts the task; `wait` returns then.
uuid=$(post /api/tasks '{"assistant_id": 2, "input": [{"type": "text", "text": "Call weather."}],
  "client_tools": [{"type": "function", "name": "weather"}]}' | field uuid)
task=$(curl -fsS "$url/api/tasks/$uuid?wait=60" -H "$auth")
echo "called: $(echo "$task" | field status)"
call=$(echo "$task" | sed 's/.*"pending_tool_calls": *\[{"id": *"\([^"]*\)".*/\1/')
post "/api/tasks/$uuid/tool-results" "{\"results\": [{\"tool_call_id\": \"$call\", \"output\": \"sunny\"}]}" >/dev/null
echo "answered: $(curl -fsS "$url/api/tasks/$uuid?wait=60" -H "$auth" | field status)"

curl -fsS "$url/api/tasks?status=completed&per_page=1" -H "$auth" | sed 's/.*"total": *\([0-9]*\).*/completed: \1/'
