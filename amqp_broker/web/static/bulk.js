// The same for many objects: what would happen to each as they are now, and then all of them, a few at a time.

import { note } from "./dialog.js";

const AT_ONCE = 4;

async function each(rows, run) {
  const left = rows.map((row, index) => [row, index]);
  const work = async () => {
    for (let next = left.shift(); next; next = left.shift()) await run(...next);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

// What fails is told at the end, and the rest is done.
export async function doToMany(rows, run, advance) {
  const failures = [];
  await each(rows, async (row) => {
    try {
      await run(row);
    } catch (error) {
      failures.push(`${row.name}: ${error.message}`);
    }
    advance();
  });
  if (failures.length) note(`${failures.length} of ${rows.length} failed. ${failures.slice(0, 3).join("; ")}`, "problem");
  return true;
}

// What `look` finds of each, in their order: {found}, or {error}.
export async function lookAtMany(rows, look) {
  const seen = new Array(rows.length);
  await each(rows, async (row, index) => {
    try {
      seen[index] = { row, found: await look(row) };
    } catch (error) {
      seen[index] = { row, error: error.status === 404 ? "is not there any more" : error.message };
    }
  });
  return seen;
}
