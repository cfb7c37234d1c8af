/**
 * `THOROUGH=1`, as each night has it, tries all inputs of suites that try some of them in `npm test`: those that find most for what
 * they cost.
 */
export const isThorough = process.env["THOROUGH"] === "1"

/** The seed of today (UTC), such as 20261127. */
export const dateSeed = () => new Date().toISOString().slice(0, 10).replaceAll("-", "")

/** The number of inputs of a suite. */
export const amount = (usual: number, thorough: number) => isThorough ? thorough : usual
