import { join } from 'node:path'
import { openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { sh } from './repo.ts'

/** Does the whole of the git work over and over, saying after each merge what the trunk is: to be killed anywhere in it. */
const [workspace = '', root = ''] = process.argv.slice(2)
const hub = unwrap(
  await openHub({ workspace, hubDir: join(root, 'hub.git'), trunk: 'team/trunk', env: { PATH: process.env.PATH } }),
)
process.stdout.write('open\n')
const clone = join(root, 'repo')
for (let i = 0; ; i++) {
  unwrap(await hub.ensureClone('alice', clone))
  const branch = `team/task-${process.pid}-${i}`
  const trunk = await hub.trunk()
  sh(`git switch -q -c ${branch} ${trunk} && echo x >${process.pid}-${i} && git add -A && git commit -q -m ${i}`, clone)
  const { head } = unwrap(await hub.fetchBranch(clone, branch))
  const seen = unwrap(await hub.preview(head))
  if (!seen.clean) throw new Error('conflict')
  const { commit } = unwrap(await hub.merge({ head, tree: seen.tree, onto: seen.onto, message: branch }))
  process.stdout.write(`merged ${commit} ${head}\n`)
}
