// Messages moved, of one queue or of many: what would happen is shown before it is done; then it is a job of the server's.

import { get, path, post, remove } from "./api.js";
import { doToMany, lookAtMany } from "./bulk.js";
import { attempt, confirmName, formDialog, inlineForm, preview } from "./dialog.js";
import { h, lines } from "./dom.js";
import { count } from "./format.js";
import { FILTER } from "./peek.js";

const WAYS = [["replay-queue", "back to the queue in which each died first"], ["replay-exchange", "back to the exchange to which each was published"], ["queue", "to the queue"], ["exchange", "to the exchange"]];
const FIELDS = [
  { name: "way", label: "Where", type: "select", options: WAYS }, { name: "name", label: "Queue or exchange" }, { name: "key", label: "Routing key" }, FILTER,
  { name: "limit", label: "At most", type: "number" }, { name: "rate", label: "A second, at most", type: "number" },
];
const LOOK_MS = 300;
const BUSY_MS = 1000;

const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });

function asked({ way, name, key, filter, limit, rate }) {
  const [verb, into] = way.startsWith("replay") ? ["replay", { into: way.slice("replay-".length) }] : ["move", { to: way === "queue" ? { queue: name } : { exchange: name, routing_key: key } }];
  return { verb, body: { ...into, filter, ...(limit === null ? {} : { limit }), ...(rate === null ? {} : { rate }) } };
}

const most = (found, limit) => limit === null ? found.moved : Math.min(limit, found.moved);

export function moveForm(vhost, queue) {
  return inlineForm("Move messages, or replay dead letters", FIELDS, "What would happen?", async (values) => {
    const { verb, body } = asked(values);
    const where = path`v1/queues/${vhost}/${queue}/` + verb;
    const found = await post(where, { ...body, dry_run: true });
    const begin = (output) => confirmName("Move the messages", `Up to ${count(most(found, values.limit))} messages leave this queue, each when it is safe where it goes.`, queue, "Move", async () => {
      output.replaceChildren(jobLine(await post(where, body)));
    });
    const output = h("div", { id: "survey" },
      h("p", {}, `${count(found.moved)} of ${count(found.messages_ready)} messages would be moved${found.is_all ? "" : ` (${count(found.looked_at)} were looked at)`}.`),
      found.origins.length ? lines(["Died in", "Why", "Would go to", "Messages"], found.origins.map((each) => [each.queue, each.reason, each.to ?? "nowhere: stays", count(each.messages)])) : null,
      found.moved ? h("button", { type: "button", class: "danger", id: "move", onclick: () => begin(output) }, "Move") : null);
    return output;
  });
}

export function moveMany(rows) {
  const look = async (values) => {
    const { verb, body } = asked(values);
    const seen = await lookAtMany(rows, (row) => post(path`v1/queues/${row.vhost}/${row.name}/` + verb, { ...body, dry_run: true }));
    const moved = seen.reduce((sum, { found }) => sum + (found ? most(found, values.limit) : 0), 0);
    return h("div", {}, h("p", {}, `${count(moved)} messages of ${count(rows.length)} queues would be moved, each when it is safe where it goes.`),
      preview(["Queue", "Ready", "Would move"], seen.map(({ row, found, error }) => found ? [row.name, count(found.messages_ready), count(most(found, values.limit))] : [row.name, "–", error])));
  };
  return formDialog(`Move messages of ${rows.length} queues`, FIELDS, {
    submit: "Move", isDanger: true, total: rows.length, preview: look,
    run: (values, advance) => {
      const { verb, body } = asked(values);
      return doToMany(rows, (row) => moved(path`v1/queues/${row.vhost}/${row.name}/` + verb, body), advance);
    },
  });
}

// One queue, to its job's end; where too many run already, later.
async function moved(where, body) {
  let job = null;
  while (!job) {
    try {
      job = await post(where, body);
    } catch (error) {
      if (error.code !== "too_many_jobs") throw error;
      await wait(BUSY_MS);
    }
  }
  while (job.state === "running") {
    await wait(LOOK_MS);
    job = await get(path`v1/jobs/${job.id}`);
  }
  if (job.state !== "done") throw new Error(`${job.state} after ${count(job.moved)} messages; ${job.reason}`);
}

export function told(job) {
  const isReplay = job.next_offset !== undefined;
  const more = isReplay ? [job.left_over ? `${count(job.left_over)} did not fit` : "", job.unroutable ? `${count(job.unroutable)} went to no queue` : "", job.state === "done" ? "" : `the next one is offset ${count(job.next_offset)}`] : [];
  return [`${job.state}: ${count(job.moved)} of ${count(job.messages_ready)} ${isReplay ? "published again" : "moved"}`, ...more, job.reason].filter(Boolean).join("; ") + " ";
}

// A job as it goes on, until it has ended or nobody looks at it any more.
export function jobLine(job) {
  const at = path`v1/jobs/${job.id}`;
  const said = h("span", { role: "status", id: "job" });
  const cancel = h("button", { type: "button", class: "small", onclick: () => attempt("It ends soon.", () => remove(at)) }, "Cancel");
  const progress = h("progress", { "aria-label": "how far the job is" });
  const show = (present) => {
    said.textContent = told(present);
    progress.max = present.messages_ready || 1;
    progress.value = present.taken || 0;
    if (present.state !== "running") {
      cancel.remove();
      progress.remove();
    }
    return present.state === "running";
  };
  const look = async () => {
    const present = await get(at).catch((error) => ({ state: "unknown", moved: 0, messages_ready: 0, reason: error.message }));
    if (show(present) && said.isConnected) setTimeout(look, BUSY_MS);
  };
  if (show(job)) setTimeout(look, LOOK_MS);
  return h("p", {}, said, cancel, progress);
}
