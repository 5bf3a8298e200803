// Where somebody begins in a stream: the fields that ask for it, and what the API is told.

import { get, query } from "./api.js";

const WAYS = {
  offset: "an offset", first: "the first message", last: "what was published last", next: "what is published from now on", newest: "the newest message, backwards",
  time: "a time", age: "so long ago",
};
const AGE = /^[0-9]+[YMDhms]$/;
const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, D: 86_400_000, M: 30 * 86_400_000, Y: 365 * 86_400_000 };
const AGE_HINT = "A number and one of Y M D h m s, such as 12h";

// ways: those of WAYS that are offered; or pairs of one and its own title. offset: the name of the field for one.
export function placeFields(name, label, ways, offset = `${name}_offset`) {
  const options = ways.map((each) => Array.isArray(each) ? each : [each, WAYS[each]]);
  const has = (way) => options.some(([key]) => key === way);
  const is = (way) => (values) => values[name] === way;
  return [
    { name, label, type: "select", options },
    ...has("offset") ? [{ name: offset, label: "Offset", type: "number", min: 0, when: is("offset") }] : [],
    ...has("time") ? [{ name: `${name}_time`, label: "Time, by your clock", type: "datetime-local", when: is("time") }] : [],
    ...has("age") ? [{ name: `${name}_age`, label: "How long ago", placeholder: "12h", hint: AGE_HINT, when: is("age") }] : [],
  ];
}

// As the API wants it: a number or a text. Throws where it is not said.
export function placeOf(values, name, offset = `${name}_offset`) {
  const way = values[name];
  if (way === "offset") {
    if (values[offset] === null) throw new Error("Name the offset.");
    return values[offset];
  }
  if (way === "time") {
    const moment = new Date(values[`${name}_time`]);
    if (Number.isNaN(moment.getTime())) throw new Error("Name the time: date, hours and minutes.");
    return moment.toISOString();
  }
  if (way === "age") {
    ageMs(values[`${name}_age`]);
    return values[`${name}_age`].trim();
  }
  return way;
}

export function ageMs(text) {
  const age = text.trim();
  if (!AGE.test(age)) throw new Error(`${AGE_HINT}.`);
  return Number(age.slice(0, -1)) * UNIT_MS[age.at(-1)];
}

// The offset of a place; of a stream that has partitions, that in each of them: [{name, offset}].
export async function offsetsAt(where, place) {
  const found = await get(`${where}/offset${query({ at: place })}`);
  return found.partitions ?? [{ name: "", offset: found.offset }];
}
