/** The pair of which V8 gives the second a key of the first, and JSON that does not survive parsing. */
export const documents = [
  String.raw`{"a":0,"\\":1}`,
  String.raw`{"a":0,"\n":1}`,
  String.raw`{"b":1234567890123456789, "a":-0,"a":1.0,"c":[1E400,"\ud800\u0000\/é"],"__proto__":{"\u0061":null}}`
]
