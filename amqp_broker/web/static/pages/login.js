// Log in: name and password go to the server once, and the browser keeps neither.

import { logIn } from "../api.js";
import { h } from "../dom.js";

export function loginPage(done) {
  const name = h("input", { name: "username", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h("form", { class: "login", method: "post", action: "login" }, h("h1", {}, "Message broker"),
    h("label", {}, h("span", {}, "User"), name), h("label", {}, h("span", {}, "Password"), password), problem, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      await logIn(name.value, password.value);
      done();
    } catch (error) {
      problem.textContent = error.status === 401 && error.message === "Not_Authorized" ? "Name or password are not right." : error.message;
      problem.hidden = false;
      password.value = "";
      password.focus();
    } finally {
      button.disabled = false;
    }
  });
  setTimeout(() => name.focus());
  return form;
}
