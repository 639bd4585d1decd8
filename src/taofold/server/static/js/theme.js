// Before the first paint: sets the last chosen theme, else the system's.
(() => {
  const chosen = localStorage.getItem("taofold.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
