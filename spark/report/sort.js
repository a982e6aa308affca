// A click on a heading sorts the table by this column. A second click reverses the order.
for (const heading of document.querySelectorAll("th")) {
  heading.firstElementChild.addEventListener("click", () => {
    const body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => {
      const cell = row.cells[column];
      if (!("value" in cell.dataset)) return cell.textContent;
      return cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
    };
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b) * (down ? -1 : 1);
    body.append(...[...body.rows].sort((a, b) => order(value(a), value(b))));
  });
}
