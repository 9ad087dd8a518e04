// The chosen time of a sink's page. The address has it in UTC, so that it means the same to whoever it is sent to; the
// fields show it in the reader's zone. Without this script they are in UTC, and say so.

const form = document.getElementById("range");
const fields = [form.elements.from, form.elements.to];
const [first, last] = fields;

const moment = (text) => (text ? new Date(text) : null);
// Whole seconds where that is what there is.
const short = (at) => at.toISOString().replace(/\.000Z$/, "Z");

export const chosen = { from: moment(first.dataset.at), to: moment(last.dataset.at) };

// Open the page for another time, or for all of it.
export function choose(from, to) {
  const address = new URL(form.action);
  const colour = new URL(location.href).searchParams.get("colour"); // of the map: kept with whatever time
  if (colour) address.searchParams.set("colour", colour);
  if (from) address.searchParams.set("from", short(from));
  if (to) address.searchParams.set("to", short(to));
  address.hash = scrollY ? "range" : ""; // somebody who had scrolled to the chart sees it again
  location.assign(address);
}

function check() {
  const [from, to] = fields.map((field) => moment(field.value));
  last.setCustomValidity(from && to && from > to ? "The chosen time ends before it begins." : "");
}

for (const field of fields) {
  const at = moment(field.dataset.at);
  if (at) field.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().replace(/(\.000)?Z$/, "");
  field.addEventListener("input", check);
}
check();
form.addEventListener("formdata", ({ formData }) => {
  for (const { name, value } of fields) {
    if (value) formData.set(name, short(moment(value)));
    else formData.delete(name);
  }
});
document.getElementById("range-zone").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
