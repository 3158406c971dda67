/// Ctrl+C (⌘C) on a picture copies the number that is pointed at or chosen there; what is selected as text is left to the browser.
export function copied(event: KeyboardEvent, value: number | undefined): boolean {
  if (event.key.toLowerCase() !== 'c' || !(event.ctrlKey || event.metaKey) || value === undefined || String(getSelection() ?? '')) return false;
  event.preventDefault();
  void navigator.clipboard?.writeText(String(value)).catch(() => {});
  return true;
}
