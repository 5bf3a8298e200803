// The home of a classic queue: where it lives, and its being brought elsewhere; what that means is shown before.

import { get, path, post } from "./api.js";
import { formDialog, note } from "./dialog.js";
import { h, patch } from "./dom.js";
import { facts } from "./facts.js";
import { count, octets } from "./format.js";
import { jobLine } from "./moving.js";

export function homePart(vhost, name) {
  const where = path`v1/queues/${vhost}/${name}`;
  const shown = h("p", { id: "home" });
  const jobs = h("div");
  let homes = [];

  const look = async ({ home }) => {
    const found = await post(`${where}/rehome`, { home, dry_run: true });
    return [facts([["From", found.from], ["To", found.home], ["Messages that are brought there", count(found.messages)], ["Octets", octets(found.message_bytes)],
      ["Held by consumers: come again", count(found.messages_unacknowledged)], ["Consumers that stay attached", count(found.consumers)]]),
    h("p", {}, "It delivers nothing until it is there; what is published meanwhile waits.")];
  };
  const move = async () => {
    const job = await formDialog(`Move ${name}`, [{ name: "home", label: "To the node or worker", type: "select", options: homes }], {
      submit: "Move", isDanger: true, preview: look, run: ({ home }) => post(`${where}/rehome`, { home }),
    });
    if (job) jobs.replaceChildren(jobLine(job));
  };
  const button = h("button", { type: "button", class: "danger", id: "rehome", onclick: () => move().catch((error) => note(error.message, "problem")) }, "Move to …");

  async function refresh() {
    try {
      const found = await get(`${where}/homes`);
      homes = found.homes;
      button.disabled = !homes.length;
      patch(shown, `It lives at ${found.home}. `, homes.length ? "" : "There is no other node or worker.");
    } catch (error) {
      homes = [];
      button.disabled = true;
      patch(shown, error.message);
    }
  }
  return { node: h("div", {}, h("p", {}, button, " To another node, or another worker of its node, with all that it holds."), shown, jobs), refresh };
}
