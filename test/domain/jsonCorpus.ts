/** Documents by the grammar of RFC 8259, as bytes: a character stands for the byte of its code. */

/** Splits at white space. `\xNN` is a byte, white space too, and `\empty` no byte; other escapes are those of JSON. */
const of = ({ raw: [texts = ""] }: TemplateStringsArray) =>
  texts.trim().split(/\s+/).map((text) =>
    text === "\\empty"
      ? ""
      : text.replaceAll(/\\x([0-9a-f]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
  )

/** Section 2, structure and white space. */
const structure = {
  valid: of`
      {} [] \x20[] []\x20 \x09\x0d\x0a\x20[\x20\x09\x0d\x0a\x20]\x20\x09\x0d\x0a {\x20} [\x20] [\x0a]
      \x0a[\x0d1\x09,\x202\x20] {"a"\x20:\x201} {\x20"a":1\x20,\x20"b":2\x20}
      \x0d\x0a{\x0d\x0a"a"\x0d\x0a:\x0d\x0a1\x0d\x0a}\x0d\x0a [[]] [[],[]] [{}] [{},{}] {"a":{}} {"a":[]}
      [[[[[[[[1]]]]]]]] {"a":{"b":{"c":{"d":null}}}} [{"a":[{"b":[]}]}]
    `,
  invalid: of`
      \empty \x20 \x09\x0d\x0a [ ] { } [[ []] {}} [} {] [[] {{}} [{]} {[}] {"a":[} ["a":1] []\x0b \x0c[] [\x0b]
      [1\x0c] \xa0[] [\xc2\xa0] \xe2\x80\xa8[] [\x00] []\x00 \x00 [\x01] [\x1f] [\x7f] []\x20[] []1 {}[] 1\x202
      "a"\x20"b" null\x20null 1, , : []/**/ []//\x20a #\x20a\x0a[] /*\x20a\x20*/[] [1\x20/*\x20a\x20*/]
      <!--\x20-->[] * <null> [<null>] () (1) [1;2] [\x60a\x60] \ [\] \n[] []\n \x24[] @ [*] [&a] [\x24]
    `
}

/** Section 3, values and literals. */
const literals = {
  valid: of`
      null true false \x20null true\x20 \x0afalse\x0a [null] [true,false,null] [true\x20,\x09false\x0a,null]
      {"a":true,"b":false,"c":null} {"null":null} {"true":"false"}
    `,
  invalid: of`
      n nu nul nulll t tru truee f fals falsee nul\x00 True TRUE False FALSE Null NULL nUll tRUE [nul] [tru] [fals]
      [truth] [nulltrue] [true\x20false] [t\x20rue] [tr\x0aue] [true\xe9] undefined [undefined] NaN [NaN] nan
      Infinity [Infinity] -Infinity [-Infinity] [inf] [nan] a [a] [a\xc3\xa5] \xc3\xa5 \xf0\x9f\x98\x80 None yes
    `
}

/** Section 4, objects. */
const objects = {
  valid: of`
      {"a":1} {"a":1,"b":2} {"":0} {"\x20":0} {"a":1,"a":2} {"a":1,"a":1} {"a":1,"\u0061":2} {"\u0000":0}
      {"\ud800":0} {"\xc3\xa5":0} {"\xf0\x9f\x98\x80":0} {"__proto__":1} {"__proto__":{"a":1},"__proto__":{"b":1}}
      {"constructor":1,"toString":2,"hasOwnProperty":3} {"0":0,"a":1,"-1":2,"1":3} {"a":{"a":{"a":1}}} {"a\nb":1}
      {"a\\":1,"a\n":2} {"\"":"\""} {"min":-1.0e+28,"max":1.0e+28} {"a":[],"b":{},"c":"","d":0,"e":null}
    `,
  invalid: of`
      {"a"} {"a":} {"a"\x201} {"a",1} {"a"::1} {"a":1,} {"a":1,,"b":2} {,"a":1} {,} {:1} {:} {1:1} {null:1} {true:1}
      {[]:1} {{}:1} {a:1} {'a':1} {"a":1\x20"b":2} {"a":1:2} {"a":1 {"a":1, {"a": {"a" {"a {" {\x20 {"a":"b {"a":"b"
      {"a":"b"] {"a":'b'} {"a":1\x20b} {"a":1}} {"a":1}# {"a":1}/**/ {"a":/*b*/1} {"a"=1} {"a"=>1} {...} {"a":1,"b"}
      {"a":1,b:2} {\xff:1} {"\xff":1} {"a\x0ab":1} {"\x":1} {"a":b} {"":}
    `
}

/** Section 5, arrays. */
const arrays = {
  valid: of`
      [1] [1,2] [1,\x0a2] [""] [[],{},"",0,true,null] [1,1,1,1] [null,1,"1",{}] [[1],[2,[3,[4]]]]
      [\x201\x20,\x202\x20] [-0] [false] ["a"] [2]\x20
    `,
  invalid: of`
      [1,] [,1] [,] [,,] [1,,2] [1,,] [1\x202] [1\x0a2] [1 [1, [1,\x0a ["a" ["a", ["a [" ["a"\x20"b"] [1} [1:2] [1]]
      [1], [1]x [x [x,1] [[1] [[1], [3[4]] [{}{}] [][] [true [0,]x [-] [\xff] ["a",\x0a4\x0a,1,
    `
}

/** Section 6, numbers. */
const numbers = {
  valid: of`
      0 -0 1 9 -1 10 123456789 0.0 -0.0 0.1 1.0 1.5 -1.5 100.001 0e0 0E0 0e+1 0e-1 1e1 1E1 1e+1 1e-1 1E+1 1E-1 1.5e3
      1.5E-3 -1.5e+300 1e01 1e001 1e-001 0.000000000000000000000000000001
      -0.000000000000000000000000000000000000000000000000000000000000000000000000000001 123e65 123.456e78 20e1 1e400
      -1e400 1e-400 123123e100000
      0.4e00669999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999 1.5e+9999
      9007199254740993 1234567890123456789 -123123123123123123123123123123 100000000000000000000000000000000000000
      2147483648 -2147483649 18446744073709551616 0.30000000000000004 4.9e-324 1.7976931348623157e308 \x201 1\x20
      [1e1] [\x204] [0,-0] {"a":1e1} {"a":-0.5\x20}
    `,
  invalid: of`
      - + +1 ++1 --1 -+1 -\x201 00 01 -01 -00 012 0123.5 1. 0. -1. . .5 -.5 +.5 1..5 1.5.5 1.e1 0.e1 .e1 e1 1e 1E
      1e+ 1e- 1E+ 0e 0e+ 1.5e 1.5e+ 1ee1 1e1e1 1e1.5 1e+-1 1e++1 1e\x201 1\x20e1 1\x20000 1,5 1_000 0x1 0xff -0x1
      0b1 0o1 1f 1n 1L 1a 1ea -a -foo 1+2 1-2 1/2 9.e+ 2.e3 2.e-3 0.3e 0.3e+ 0.5. 0+1 [1.] [1e] [01] [.5] [+1] [1e+]
      [0\x20.5] [1\x00] [-1x] [1\xe5] \xef\xbc\x91 [\xd9\xa1] \x241 1\x24
    `
}

/** Section 7, strings, and section 8, characters. */
const strings = {
  valid: of`
      "" "\x20" "a" "abc\x20def" "'" "/" "\x7f" "\"" "\\" "\/" "\b\f\n\r\t" "\\n" "\\\"" "\\\\" "\u0020" "\u0000"
      "\u001f" "\u0022" "\u005c" "\u00e9" "\uABCD" "\uabcd" "\uAbCd" "\uFFFF" "\ufffe" "\uFDD0" "\u2028\u2029"
      "\ud83d\ude00" "\uD834\uDd1e" "\ud800" "\udc00" "\udc00\ud800" "\ud800\ud800\n" "\ud800abc" "\uDADA\u0041"
      "\u00e9\n\u00e9" "a\u0062c" "0123456789abcdef0123456789abcdef" "0123456789abcdef\n0123456789abcdef\u00e9"
      "[]{},:" "//" "/*\x20a\x20*/" ["\u0012"] ["a","b"] "\xc2\x80" "\xc3\xa9" "\xdf\xbf" "\xe0\xa0\x80"
      "\xe2\x82\xac" "\xe2\x80\xa8\xe2\x80\xa9" "\xed\x9f\xbf" "\xee\x80\x80" "\xef\xbb\xbf" "\xef\xbf\xbd"
      "\xef\xbf\xbe" "\xef\xbf\xbf" "\xf0\x90\x80\x80" "\xf0\x9f\x98\x80" "\xf4\x8f\xbf\xbf"
      "a\xc3\xa9b\xe2\x82\xacc\xf0\x9f\x98\x80d" "0123456789abcdef0123456789abcdef\xc3\xa9" "\\\xc3\xa9"
      {"\xe2\x82\xac":"\xe2\x82\xac"}
    `,
  invalid: of`
      " "a "a"" """ "a"b" 'a' ' a" "\" "\ "\\\" "\a" "\x5cx41" "\0" "\'" "\v" "\e" "\N" "\B" "\U0041" "\\x20"
      "\\x0a" "\\xc3\xa9" "\u" "\u0" "\u00" "\u004" "\u00g0" "\u\x20041" "\u-041" "\u+041" "\u00\x201" "\u{41}"
      "\u004 "\u0041 "\uD800\u" "\uD800\u1" "\uD800\u1x" "\uD800\ "\u00A" "\u\xc3\xa9" "\u004\xe5" "\x00" "\x01"
      "\x08" "\x09" "\x0a" "\x0b" "\x0c" "\x0d" "\x1f" "0123456789abcdef0123456789abcdef\x0a"
      "0123456789abcdef0123456789abcdef0123\x1f" ["a\x0ab"] ["\u00A"] "\xc3\xa9 \u0020"a" \u005b\u005d
    `
}

/** Section 8.1, UTF-8: bytes that are none. */
const utf8 = {
  valid: of`
      \xef\xbb\xbf{} \xef\xbb\xbf"a" \xef\xbb\xbf\x201
    `,
  invalid: [
    // A continuation without a beginning.
    of`
      "\x80" "\xbf" "a\x80b" "\xc3\xa9\xa9"
    `,
    // Cut characters.
    of`
      "\xc2" "\xc3 "\xe2\x82" "\xe2" "\xe2\x82 "\xf0\x9f\x98" "\xf0\x9f" "\xf0" "\xf0\x9f\x98 "\xc3a" "\xe2a\x82"
      "\xe2\x82a" "\xf0\x9f\x98a" "\xe2\xe2\x82\xac" "\xc3\n"
    `,
    // Overlong forms.
    of`
      "\xc0\x80" "\xc0\xaf" "\xc1\xbf" "\xe0\x80\x80" "\xe0\x80\xaf" "\xe0\x9f\xbf" "\xf0\x80\x80\x80"
      "\xf0\x8f\xbf\xbf" "\xf8\x80\x80\x80\x80" "\xfc\x80\x80\x80\x80\x80"
    `,
    // Surrogates.
    of`
      "\xed\xa0\x80" "\xed\xad\xbf" "\xed\xaf\xbf" "\xed\xb0\x80" "\xed\xbf\xbf" "\xed\xa0\xbd\xed\xb8\x80"
    `,
    // Beyond U+10FFFF.
    of`
      "\xf4\x90\x80\x80" "\xf4\xbf\xbf\xbf" "\xf5\x80\x80\x80" "\xf7\xbf\xbf\xbf" "\xf8\x88\x80\x80\x80" "\xfe"
      "\xff" "\xfe\xff"
    `,
    // Other encodings, and wrong byte order marks.
    of`
      "\xe9" "caf\xe9" \xff\xfe[\x00]\x00 \xfe\xff\x00[\x00] [\x00]\x00 \x00[\x00] \xef \xef\xbb \xef\xbb\xbf
      \xef\xbb[] \xef\xbb\xbf\xef\xbb\xbf[] \x20\xef\xbb\xbf[] [\xef\xbb\xbf] []\xef\xbb\xbf
      {"a":"0123456789abcdef0123456789abcdef\xed\xa0\x80"}
    `
  ].flat()
}

const all = [structure, literals, objects, arrays, numbers, strings, utf8]

export const valid: ReadonlyArray<string> = all.flatMap(({ valid }) => valid)
export const invalid: ReadonlyArray<string> = all.flatMap(({ invalid }) => invalid)

export const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (character) => character.charCodeAt(0))
