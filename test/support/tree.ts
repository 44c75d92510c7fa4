import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** Everything below a folder, byte for byte: files by a hash of what is in them, with their modes. */
export const treeOf = (folder: string): Record<string, string> => {
  const tree: Record<string, string> = {}
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
    const at = join(folder, path)
    const stat = lstatSync(at)
    const what = stat.isFile()
      ? createHash('sha1').update(readFileSync(at)).digest('hex')
      : stat.isSymbolicLink()
        ? readlinkSync(at)
        : stat.isDirectory()
          ? 'folder'
          : 'other'
    tree[path] = `${(stat.mode & 0o777).toString(8)} ${what}`
  }
  return tree
}
