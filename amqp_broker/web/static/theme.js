// Before the first picture is drawn: the theme that was chosen, if one was; else the system's.
try {
  const theme = localStorage.getItem("broker.theme");
  if (theme) document.documentElement.dataset.theme = JSON.parse(theme);
} catch { /* Without storage there is the system's. */ }
