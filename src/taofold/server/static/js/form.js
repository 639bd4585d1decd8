/** The form of a tool's question during its call: a field for each property. */

import { h } from "./dom.js";
import { visible } from "./format.js";
import { scalar } from "./json.js";

const KINDS = { email: "email", uri: "url", date: "date", "date-time": "text" };

/** Returns the choices of a property as `[value, title]` pairs, or null. */
function choices(schema) {
  const said = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(said)) return said.map((one) => [one.const, one.title ?? String(one.const)]);
  if (!Array.isArray(schema.enum)) return null;
  return schema.enum.map((one, n) => [one, schema.enumNames?.[n] ?? String(one)]);
}

function select(name, known, { multiple, required, value }) {
  const given = multiple ? value ?? [] : [value];
  const field = h("select", { name, multiple, required },
    !multiple && h("option", { value: "" }, "choose …"),
    known.map(([one, title], n) => h("option", { value: n, selected: given.includes(one) }, visible(String(title)))));
  const read = () => {
    const chosen = [...field.selectedOptions].filter((one) => one.value !== "").map((one) => known[Number(one.value)][0]);
    return multiple ? chosen : chosen[0];
  };
  return { field, read };
}

function input(name, schema, required) {
  const number = schema.type === "number" || schema.type === "integer";
  const field = h("input", {
    name, required, type: number ? "number" : KINDS[schema.format] ?? "text", value: schema.default, autocomplete: "off",
    step: number ? (schema.type === "integer" ? 1 : "any") : null, min: number ? schema.minimum : null, max: number ? schema.maximum : null,
    minlength: schema.minLength, maxlength: schema.maxLength, pattern: number ? null : schema.pattern,
  });
  return { field, read: () => (field.value === "" ? undefined : number ? Number(field.value) : field.value) };
}

function reader(name, schema, required) {
  if (schema.type === "boolean") {
    const field = h("input", { name, type: "checkbox", checked: schema.default === true });
    return { field, read: () => field.checked };
  }
  const multiple = schema.type === "array";
  const known = choices(multiple ? schema.items ?? {} : schema);
  return known ? select(name, known, { multiple, required, value: schema.default }) : input(name, schema, required);
}

/** Returns `node` to show, and `read()`, which returns the values, or null after showing a fault. */
export function form(schema) {
  const wanted = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, one]) => [name, one, reader(name, one ?? {}, wanted.has(name))]);
  const node = h("form", { class: "fields", onsubmit: (event) => event.preventDefault() }, fields.map(([name, one, { field }]) =>
    h("label", { class: one.type === "boolean" ? "check" : "" }, h("span", {}, visible(String(one.title ?? name)), wanted.has(name) ? " *" : ""), field,
      one.description && h("small", {}, visible(String(one.description))),
      // A field hides parts of a long text and invisible characters.
      typeof one.default === "string" && h("small", {}, "filled in: ", scalar(one.default, true)))));
  const read = () => {
    if (!node.reportValidity()) return null;
    return Object.fromEntries(fields.map(([name, , one]) => [name, one.read()]).filter(([, value]) => value !== undefined));
  };
  return { node, read };
}
