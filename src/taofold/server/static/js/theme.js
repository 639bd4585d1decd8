// Before the first paint: the theme that was chosen last, else the system's.
(() => {
  const chosen = localStorage.getItem("taofold.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
