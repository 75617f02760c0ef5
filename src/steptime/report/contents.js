"use strict";

/* What every page has: contents that follow the reader, and tables that say where they go on. */
{
  const sections = [...document.querySelectorAll("main > section")].filter((one) =>
    one.querySelector("h2"),
  );
  sections.forEach((one, at) => (one.id ||= `part-${at + 1}`));

  /** The heading's own words, without how its figures came about. */
  const titleOf = (section) => {
    const heading = section.querySelector("h2").cloneNode(true);
    for (const aside of heading.querySelectorAll(".source")) aside.remove();
    return heading.textContent.trim();
  };

  if (sections.length > 2) {
    const contents = document.createElement("nav");
    contents.className = "contents";
    contents.setAttribute("aria-label", "contents");
    const links = sections.map((section) => {
      const link = document.createElement("a");
      link.href = `#${section.id}`;
      link.textContent = titleOf(section);
      contents.append(link);
      return link;
    });
    sections[0].before(contents);
    const follow = () => {
      const line = contents.getBoundingClientRect().bottom + 60;
      const at = sections.findLastIndex((one) => one.getBoundingClientRect().top < line);
      links.forEach((link, place) => {
        if (place !== at) link.removeAttribute("aria-current");
        else if (!link.hasAttribute("aria-current")) {
          link.setAttribute("aria-current", "true");
          contents.scrollTo({ left: link.offsetLeft - 40 });
        }
      });
    };
    addEventListener("scroll", follow, { passive: true });
    addEventListener("resize", follow);
    follow();
  }

  for (const table of document.querySelectorAll(".scroll")) {
    const hint = document.createElement("p");
    hint.className = "hint";
    table.after(hint);
    const tell = () => {
      const right = table.scrollWidth - table.clientWidth - table.scrollLeft > 2;
      const down = table.scrollHeight - table.clientHeight - table.scrollTop > 2;
      hint.textContent =
        right || down ? `More ${right ? "to the right →" : ""}${right && down ? " and " : ""}${down ? "below ↓" : ""}` : "";
      hint.hidden = table.scrollWidth <= table.clientWidth + 2 && table.scrollHeight <= table.clientHeight + 2;
      table.toggleAttribute("data-more", right);
    };
    table.addEventListener("scroll", tell, { passive: true });
    new ResizeObserver(tell).observe(table);
  }
}
