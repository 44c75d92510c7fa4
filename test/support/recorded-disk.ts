// What a power cut may leave: the acts on files under one folder are recorded as the code under test does them, and the
// states of the disk that are possible after each of them are made again. Put in place of node:fs by `vi.mock`.
import type * as fs from 'node:fs'
import type * as promises from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'

type Act =
  | { readonly act: 'write'; readonly file: number; readonly at: number; readonly bytes: Buffer }
  | { readonly act: 'size'; readonly file: number; readonly size: number }
  | { readonly act: 'sync'; readonly file: number }
  /** What the file system told of it: programs know a file again by that. */
  | { readonly act: 'identity'; readonly file: number; readonly is: Identity }
  /** Names that change in one step: a rename takes one away and sets the other. */
  | { readonly act: 'names'; readonly set: readonly (readonly [path: string, file: number | 'folder' | null])[] }
  | { readonly act: 'sync folder'; readonly path: string }
  /** Somebody was told that this lasts. */
  | { readonly act: 'promise'; readonly what: string }

interface Identity {
  readonly ino: bigint
  readonly birthtimeNs: bigint
  readonly mtimeNs: bigint
}

/** What lies on a disk: files by their path, with null for a folder. */
export type Image = ReadonlyMap<string, { readonly bytes: Buffer; readonly is: Identity } | null>
/** Decides what of that which was not flushed is there: a number from 0 up to, not including, 1. */
export type Choice = {
  /** Of a name that was not flushed: is it there? */
  readonly name: () => boolean
  /** Of a block of a file, and of its length. `zeros`: the length is there and the bytes are not. */
  readonly block: () => 'old' | 'new' | 'zeros'
  readonly size: (old: number, now: number) => number
}

const blockBytes = 4096

class RecordedDisk {
  /** The folder whose files are recorded; nothing is while it is null. */
  root: string | null = null
  acts: Act[] = []
  /** Flushing costs time and nothing is recorded by it: left out then. */
  isQuick = false
  #names = new Map<string, number | 'folder'>()
  #sizes = new Map<number, number>()
  #open = new Map<number, { readonly file: number | 'folder'; readonly path: string; readonly isAppending: boolean }>()
  #files = 0
  /** Of files that were laid: what they are to be known as, by what they are. */
  readonly laid = new Map<bigint, { readonly real: Identity; readonly is: Identity }>()

  begin(root: string): void {
    this.root = root
    this.acts = []
    this.#names = new Map([[root, 'folder']])
    this.#sizes.clear()
    this.#open.clear()
  }

  end(): readonly Act[] {
    this.root = null
    return this.acts
  }

  promise(what: string): void {
    if (this.root !== null) this.acts.push({ act: 'promise', what })
  }

  isInside(path: unknown): path is string {
    return this.root !== null && typeof path === 'string' && (path === this.root || path.startsWith(this.root + sep))
  }

  opened(fd: number, path: string, isNewlyMade: boolean, isCut: boolean, isAppending: boolean): void {
    let file = this.#names.get(path)
    if (file === undefined && isNewlyMade) {
      file = this.#files++
      this.#sizes.set(file, 0)
      this.#set([[path, file]])
    }
    // A folder that another program made, as git does.
    file ??= 'folder'
    if (isCut && file !== 'folder' && this.#sizes.get(file) !== 0) this.#resize(file, 0)
    this.#open.set(fd, { file, path, isAppending })
  }

  closed(fd: number): void {
    this.#open.delete(fd)
  }

  wrote(fd: number, bytes: Buffer, position: number | null | undefined): void {
    const open = this.#open.get(fd)
    if (!open || open.file === 'folder') return
    const { file } = open
    const size = this.#sizes.get(file) ?? 0
    // Who writes without a place appends: nothing here writes on from where it read.
    const at = open.isAppending || typeof position !== 'number' ? size : position
    this.acts.push({ act: 'write', file, at, bytes: Buffer.from(bytes) })
    this.#sizes.set(file, Math.max(size, at + bytes.length))
  }

  /** The state of an open file after it was changed. */
  told(fd: number, is: Identity): void {
    const open = this.#open.get(fd)
    if (open && open.file !== 'folder') this.acts.push({ act: 'identity', file: open.file, is })
  }

  isRecorded(fd: number): boolean {
    return this.#open.has(fd)
  }

  cut(fd: number, size: number): void {
    const open = this.#open.get(fd)
    if (open && open.file !== 'folder') this.#resize(open.file, size)
  }

  synced(fd: number): void {
    const open = this.#open.get(fd)
    if (!open) return
    this.acts.push(open.file === 'folder' ? { act: 'sync folder', path: open.path } : { act: 'sync', file: open.file })
  }

  renamed(from: string, to: string): void {
    const file = this.#names.get(from)
    // A socket, which nobody writes into.
    if (file === undefined) return
    this.#set([
      [from, null],
      [to, file],
    ])
  }

  linked(from: string, to: string): void {
    const file = this.#names.get(from)
    if (file !== undefined) this.#set([[to, file]])
  }

  removed(path: string): void {
    if (this.#names.has(path)) this.#set([[path, null]])
  }

  made(path: string): void {
    const missing: string[] = []
    for (let at = path; this.isInside(at) && !this.#names.has(at); at = dirname(at)) missing.unshift(at)
    for (const each of missing) this.#set([[each, 'folder']])
  }

  #resize(file: number, size: number): void {
    this.acts.push({ act: 'size', file, size })
    this.#sizes.set(file, size)
  }

  #set(set: readonly (readonly [string, number | 'folder' | null])[]): void {
    this.acts.push({ act: 'names', set })
    for (const [path, file] of set) {
      if (file === null) this.#names.delete(path)
      else this.#names.set(path, file)
    }
  }
}

/** The one disk of a test file. */
export const disk = new RecordedDisk()

/** `node:fs`, every change of a file below the recorded folder written down. */
export const recordingFs = (real: typeof fs): typeof fs => {
  const { O_APPEND, O_CREAT, O_TRUNC } = real.constants
  const flagsOf = (flags: unknown): number =>
    typeof flags === 'number'
      ? flags
      : ({ r: 0, 'r+': 0, w: O_CREAT | O_TRUNC, wx: O_CREAT, a: O_CREAT | O_APPEND }[String(flags ?? 'r')] ?? 0)
  const openSync: typeof real.openSync = (path, flags, mode) => {
    const fd = real.openSync(path, flags, mode)
    const way = flagsOf(flags)
    if (disk.isInside(path)) disk.opened(fd, path, (way & O_CREAT) !== 0, (way & O_TRUNC) !== 0, (way & O_APPEND) !== 0)
    return fd
  }
  const closeSync: typeof real.closeSync = fd => {
    disk.closed(fd)
    real.closeSync(fd)
  }
  const told = (fd: number): void => {
    if (!disk.isRecorded(fd)) return
    const { ino, birthtimeNs, mtimeNs } = real.fstatSync(fd, { bigint: true })
    disk.told(fd, { ino, birthtimeNs, mtimeNs })
  }
  /** A file that was laid is told of as the one that was recorded. */
  const known = <T>(stat: T): T => {
    if (typeof stat !== 'object' || stat === null || !('mtimeNs' in stat)) return stat
    const each = stat as unknown as { ino: bigint; birthtimeNs: bigint; mtimeNs: bigint }
    const laid = disk.laid.get(each.ino)
    // Another file has its number by now.
    if (!laid || laid.real.birthtimeNs !== each.birthtimeNs) return stat
    const isUntouched = each.mtimeNs === laid.real.mtimeNs
    each.ino = laid.is.ino
    each.birthtimeNs = laid.is.birthtimeNs
    if (isUntouched) each.mtimeNs = laid.is.mtimeNs
    return stat
  }
  const put = (fd: number, data: unknown, position?: number | null): void => {
    disk.wrote(
      fd,
      Buffer.isBuffer(data) || data instanceof Uint8Array ? Buffer.from(data) : Buffer.from(String(data)),
      position,
    )
    told(fd)
  }
  const writeWhole = (path: unknown, data: unknown, flag: string): void => {
    if (typeof path === 'number') {
      real.writeFileSync(path, data as string)
      put(path, data)
      return
    }
    const fd = openSync(path as string, flag, 0o600)
    try {
      real.writeFileSync(fd, data as string)
      put(fd, data)
    } finally {
      closeSync(fd)
    }
  }
  const flagIn = (options: unknown, usual: string): string =>
    typeof options === 'object' && options !== null && 'flag' in options ? String(options.flag) : usual
  return {
    ...real,
    openSync,
    closeSync,
    statSync: ((...args: Parameters<typeof real.statSync>) => known(real.statSync(...args))) as typeof real.statSync,
    lstatSync: ((...args: Parameters<typeof real.lstatSync>) =>
      known(real.lstatSync(...args))) as typeof real.lstatSync,
    fstatSync: ((...args: Parameters<typeof real.fstatSync>) =>
      known(real.fstatSync(...args))) as typeof real.fstatSync,
    close: ((fd: number, done: () => void) => {
      disk.closed(fd)
      real.close(fd, done)
    }) as typeof real.close,
    writeSync: ((fd: number, data: Buffer | string, offset?: number, length?: number, position?: number | null) => {
      const bytes =
        typeof data === 'string'
          ? Buffer.from(data)
          : data.subarray(offset ?? 0, (offset ?? 0) + (length ?? data.length))
      const count = real.writeSync(fd, bytes, 0, bytes.length, typeof data === 'string' ? null : position)
      disk.wrote(fd, bytes.subarray(0, count), position)
      told(fd)
      return count
    }) as typeof real.writeSync,
    writeFileSync: ((path: unknown, data: unknown, options: unknown) =>
      writeWhole(path, data, flagIn(options, 'w'))) as typeof real.writeFileSync,
    appendFileSync: ((path: unknown, data: unknown) => writeWhole(path, data, 'a')) as typeof real.appendFileSync,
    fsyncSync: fd => {
      if (!disk.isQuick) real.fsyncSync(fd)
      disk.synced(fd)
    },
    fdatasyncSync: fd => {
      if (!disk.isQuick) real.fdatasyncSync(fd)
      disk.synced(fd)
    },
    fdatasync: ((fd: number, done: (error: NodeJS.ErrnoException | null) => void) => {
      const end = (error: NodeJS.ErrnoException | null): void => {
        if (!error) disk.synced(fd)
        done(error)
      }
      if (disk.isQuick) setImmediate(end, null)
      else real.fdatasync(fd, end)
    }) as typeof real.fdatasync,
    ftruncateSync: (fd, size) => {
      real.ftruncateSync(fd, size)
      disk.cut(fd, Number(size ?? 0))
    },
    renameSync: (from, to) => {
      real.renameSync(from, to)
      if (disk.isInside(from) && disk.isInside(to)) disk.renamed(from, to)
    },
    linkSync: (from, to) => {
      real.linkSync(from, to)
      if (disk.isInside(from) && disk.isInside(to)) disk.linked(from, to)
    },
    rmSync: (path, options) => {
      real.rmSync(path, options)
      if (disk.isInside(path)) disk.removed(path)
    },
    unlinkSync: path => {
      real.unlinkSync(path)
      if (disk.isInside(path)) disk.removed(path)
    },
    mkdirSync: ((path: string, options: fs.MakeDirectoryOptions) => {
      const made = real.mkdirSync(path, options)
      if (disk.isInside(path)) disk.made(path)
      return made
    }) as typeof real.mkdirSync,
    copyFileSync: (from, to) => writeWhole(to, real.readFileSync(from), 'w'),
  } as typeof fs
}

/** `node:fs/promises`, in the same way. */
export const recordingPromises = (real: typeof promises): typeof promises =>
  ({
    ...real,
    open: async (path: string, flags?: string | number, mode?: number) => {
      const file = await real.open(path, flags, mode)
      if (!disk.isInside(path)) return file
      const isMade = flags === 'wx' || flags === 'w'
      disk.opened(file.fd, path, isMade, flags === 'w', flags === 'a')
      const { fd } = file
      return new Proxy(file, {
        get: (target, key) => {
          if (key === 'writeFile')
            return async (data: string | Buffer) => {
              await target.writeFile(data)
              disk.wrote(fd, Buffer.from(data as string), null)
            }
          if (key === 'sync' || key === 'datasync')
            return async () => {
              if (!disk.isQuick) await target.sync()
              disk.synced(fd)
            }
          if (key === 'close')
            return () => {
              disk.closed(fd)
              return target.close()
            }
          const value = Reflect.get(target, key, target) as unknown
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
    },
    rename: async (from: string, to: string) => {
      await real.rename(from, to)
      if (disk.isInside(from) && disk.isInside(to)) disk.renamed(from, to)
    },
    rm: async (path: string, options: fs.RmOptions) => {
      await real.rm(path, options)
      if (disk.isInside(path)) disk.removed(path)
    },
  }) as unknown as typeof promises

interface FileState {
  synced: Buffer
  now: Buffer
  is: Identity
}

/** The disk as the acts so far left it: what was flushed, and what was not. */
export class DiskState {
  readonly #root: string
  readonly #files = new Map<number, FileState>()
  /** Names that were flushed. */
  readonly #names = new Map<string, number | 'folder'>()
  #loose: (readonly (readonly [string, number | 'folder' | null])[])[] = []

  constructor(root: string) {
    this.#root = root
  }

  take(act: Act): void {
    if (act.act === 'write' || act.act === 'size' || act.act === 'sync' || act.act === 'identity') {
      const file = this.#files.get(act.file) ?? { synced: empty, now: empty, is: nobody(act.file) }
      this.#files.set(act.file, file)
      if (act.act === 'sync') file.synced = file.now
      else if (act.act === 'identity') file.is = act.is
      else {
        const size = act.act === 'size' ? act.size : Math.max(file.now.length, act.at + act.bytes.length)
        const now = Buffer.alloc(size)
        file.now.copy(now)
        if (act.act === 'write') act.bytes.copy(now, act.at)
        file.now = now
      }
    } else if (act.act === 'names') this.#loose.push(act.set)
    else if (act.act === 'sync folder') {
      // A step that changes names in two folders lasts as a whole once one of them is flushed.
      const isHere = (set: readonly (readonly [string, unknown])[]) => set.some(([path]) => dirname(path) === act.path)
      for (const set of this.#loose) if (isHere(set)) put(this.#names, set)
      this.#loose = this.#loose.filter(set => !isHere(set))
    }
  }

  /** One of the states that a power cut now may leave, paths below the root. */
  image(choice: Choice): Image {
    const names = new Map(this.#names)
    for (const set of this.#loose) if (choice.name()) put(names, set)
    const image = new Map<string, { bytes: Buffer; is: Identity } | null>()
    const contents = new Map<number, Buffer>()
    const isReached = (path: string): boolean =>
      path === this.#root || (names.get(path) === 'folder' && isReached(dirname(path)))
    for (const [path, file] of names) {
      if (!isReached(dirname(path))) continue
      const below = path.slice(this.#root.length + 1)
      if (file === 'folder') image.set(below, null)
      else {
        const content = contents.get(file) ?? this.#content(file, choice)
        contents.set(file, content)
        image.set(below, { bytes: content, is: this.#files.get(file)?.is ?? nobody(file) })
      }
    }
    return image
  }

  #content(file: number, choice: Choice): Buffer {
    const state = this.#files.get(file)
    if (!state) return empty
    const { synced, now } = state
    if (synced === now) return synced
    const content = Buffer.alloc(choice.size(synced.length, now.length))
    for (let at = 0; at < content.length; at += blockBytes) {
      const end = Math.min(at + blockBytes, content.length)
      const old = synced.subarray(at, end)
      const fresh = now.subarray(at, end)
      if (old.equals(fresh)) {
        old.copy(content, at)
        continue
      }
      const which = choice.block()
      // What was flushed of a block stays, unless a newer state of it came to the disk.
      if (which === 'new') fresh.copy(content, at)
      else old.copy(content, at)
    }
    return content
  }
}

const empty = Buffer.alloc(0)
/** Of a file that nothing was written into: one like no other. */
const nobody = (file: number): Identity => ({ ino: BigInt(file) + (1n << 60n), birthtimeNs: 0n, mtimeNs: 0n })

const put = (
  names: Map<string, number | 'folder'>,
  set: readonly (readonly [string, number | 'folder' | null])[],
): void => {
  for (const [path, file] of set) {
    if (file === null) names.delete(path)
    else names.set(path, file)
  }
}

/** Numbers from a seed, the same each time. */
export const seeded = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The corners: nothing of what was not flushed, all of it, names without bytes (empty and zeros), bytes without names. */
export const corners: Readonly<Record<string, Choice>> = {
  nothing: { name: () => false, block: () => 'old', size: old => old },
  everything: { name: () => true, block: () => 'new', size: (_old, now) => now },
  empty: { name: () => true, block: () => 'old', size: old => old },
  zeros: { name: () => true, block: () => 'zeros', size: (_old, now) => now },
  nameless: { name: () => false, block: () => 'new', size: (_old, now) => now },
}

/** Any of the others: each name and each block by itself, and a length between the old one and the new one, or one of them. */
export const anyChoice = (random: () => number): Choice => ({
  name: () => random() < 0.5,
  block: () => (['old', 'new', 'zeros'] as const)[Math.floor(random() * 3)] ?? 'old',
  size: (old, now) => {
    const which = random()
    const [least, most] = [Math.min(old, now), Math.max(old, now)]
    return which < 0.3 ? old : which < 0.6 ? now : least + Math.floor(random() * (most - least + 1))
  },
})

/** Makes the image below a folder, which must be empty. What it answers forgets its files again, for when they are gone. */
export const lay = (image: Image, folder: string, real: typeof fs): (() => void) => {
  const made: { readonly real: Identity; readonly is: Identity }[] = []
  for (const [path, content] of image) {
    if (content === null) real.mkdirSync(join(folder, path), { recursive: true, mode: 0o700 })
    else {
      real.mkdirSync(dirname(join(folder, path)), { recursive: true, mode: 0o700 })
      const file = join(folder, path)
      const fd = real.openSync(file, 'w', 0o600)
      real.writeSync(fd, content.bytes)
      const { ino, birthtimeNs, mtimeNs } = real.fstatSync(fd, { bigint: true })
      real.closeSync(fd)
      const laid = { real: { ino, birthtimeNs, mtimeNs }, is: content.is }
      disk.laid.set(ino, laid)
      made.push(laid)
    }
  }
  return () => {
    for (const laid of made) if (disk.laid.get(laid.real.ino) === laid) disk.laid.delete(laid.real.ino)
  }
}
