/** The longest line on the socket, either way. */
export const lineBytes = 16 * 1024 * 1024

/**
 * Cuts a stream of bytes into lines at 0x0A. Returns a function to feed pieces to; `onLine` gets each complete line, and
 * `onOverflow` is called once when a line grows past `limit`, after which nothing more is taken in.
 */
export const lineCutter = (
  onLine: (text: string) => void,
  onOverflow: () => void,
  limit = lineBytes,
): ((piece: Buffer) => void) => {
  let held: Buffer[] = []
  let length = 0
  let isOver = false
  return piece => {
    let from = 0
    while (!isOver) {
      const at = piece.indexOf(0x0a, from)
      const part = piece.subarray(from, at === -1 ? undefined : at)
      if (length + part.length > limit) {
        isOver = true
        held = []
        onOverflow()
        return
      }
      if (at === -1) {
        held.push(part)
        length += part.length
        return
      }
      const line = held.length === 0 ? part : Buffer.concat([...held, part])
      held = []
      length = 0
      from = at + 1
      onLine(line.toString('utf8'))
    }
  }
}
