/** `npm run test:console` also runs the slow tests of the console; `npm test` takes a part of them. */
export const isFull = process.env["CONSOLE_TESTS"] === "full"
