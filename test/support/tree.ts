import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Everything below a folder, byte for byte: files by a hash of what is in them, with their modes. No link is followed. */
export const treeOf = (folder: string): Record<string, string> => {
  const tree: Record<string, string> = {}
  const walk = (below: string): void => {
    for (const entry of readdirSync(join(folder, below), { withFileTypes: true })) {
      const path = join(below, entry.name)
      const at = join(folder, path)
      if (entry.isFile())
        tree[path] =
          `${(statSync(at).mode & 0o777).toString(8)} ${createHash('sha1').update(readFileSync(at)).digest('hex')}`
      else if (entry.isDirectory()) {
        tree[path] = 'folder'
        walk(path)
      } else tree[path] = entry.isSymbolicLink() ? readlinkSync(at) : 'other'
    }
  }
  walk('')
  return tree
}
