/* Terms that explain themselves: under the mouse, by keyboard when they have the focus, by a tap. */

const means = document.getElementById("means");
let explained = null;

/** Put what the explained term means below it, or above it where there is no room, in the window. */
function place() {
  if (!explained) return;
  const at = explained.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - means.offsetWidth - 8));
  const below = at.bottom + 6;
  const top = below + means.offsetHeight < innerHeight ? below : at.top - means.offsetHeight - 6;
  Object.assign(means.style, { left: `${left}px`, top: `${top}px` });
}

function explain(term) {
  explained = term;
  means.textContent = term.dataset.means;
  means.hidden = false;
  place();
}

function silence() {
  explained = null;
  means.hidden = true;
}

for (const term of document.querySelectorAll(".term")) {
  for (const event of ["pointerenter", "focus", "click"]) term.addEventListener(event, () => explain(term));
  for (const event of ["pointerleave", "blur"]) term.addEventListener(event, silence);
}
// The keyboard scrolls to a term that gets the focus, and tells of it after the focus: follow it.
addEventListener("scroll", place, true);
addEventListener("keydown", (event) => event.key === "Escape" && silence());
