/// On a phone a list is one line that scrolls: brings its current item into the middle. `at`: what decides which item that is.
export function centered(list: HTMLElement, at: unknown) {
  void at;
  const move = () => {
    const item = list.querySelector<HTMLElement>('[aria-current]');
    if (item) list.scrollLeft = item.offsetLeft - list.clientWidth / 2 + item.clientWidth / 2;
  };
  requestAnimationFrame(move);
  return { update: () => requestAnimationFrame(move) };
}
