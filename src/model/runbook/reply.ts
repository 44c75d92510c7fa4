import { cut } from '../../lib/text.ts'
import type { Conversation, Made, TaskItem } from './conversation.ts'
import { parseRunbook, type Step } from './parse.ts'
import { isError, isInterrupted, isUnstarted } from './results.ts'
import { commitCommand, name, openedBy, progress, type Want } from './step.ts'

/** What the runbook says next: a tool call, or a text that ends the turn. */
export type Reply = { readonly text: string } | { readonly call: Want & { readonly id: string } }

/** A call's id carries the step it was made for, so that the next request tells how far things are. */
const callId = (step: number | 'end', seq: number): string => `step${step}_${seq}`
const stepOf = (id: string): number | 'end' | null => {
  const step = /^step(\d+|end)_\d+$/.exec(id)?.[1]
  return step === undefined ? null : step === 'end' ? 'end' : Number(step)
}

/**
 * The next step of the conversation, derived from it alone: no memory is kept between requests, so it goes on rightly after
 * any crash. Pure; the same conversation gets the same reply.
 */
export const reply = (talk: Conversation): Reply => {
  const asked = talk.requests.find(request => request.type === 'shutdown_request' && !request.tried)
  const book = talk.task && !ended(talk.calls) ? parseRunbook(talk.task.text) : null
  if (asked && talk.tools.has('request')) {
    const reason = book?.rejectShutdown ?? null
    const decision = reason === null ? { decision: 'approve' } : { decision: 'reject', reason }
    return calling(talk, 'end', { name: 'request', args: { action: 'decide', id: asked.id, ...decision } })
  }
  // An approval that was refused (it came too late, or somebody else decided) binds to nothing.
  const agreed = talk.lately.some(
    call =>
      call.name === 'request' &&
      call.args.decision === 'approve' &&
      !isInterrupted(call.result) &&
      !isError(call.result ?? ''),
  )
  if (agreed) return { text: 'I agreed to shut down and begin nothing new.' }
  if (!talk.task) return { text: idle(talk) }
  if (!book) return { text: talk.mail.length > 0 && talk.lately.length === 0 ? idle(talk) : epilogue(talk.calls) }
  const [questioned] = talk.questions
  if (questioned !== undefined && talk.tools.has('request'))
    return calling(talk, 'end', { name: 'request', args: { action: 'answer', id: questioned, body: noMore } })
  if (!talk.tools.has('task')) return { text: 'I carry out runbooks of tasks, and have no task tool here.' }

  const ours = talk.calls.filter(call => stepOf(call.id) !== null && !isAside(call) && !isUnstarted(call.result))
  const closing = ours.filter(call => stepOf(call.id) === 'end')
  if (closing.length > 0) return close(talk, talk.task, closing)
  if (book.problems.length > 0)
    return failing(talk, `The runbook cannot be read, nothing was run: ${book.problems.join('\n')}`)
  if (isCut.test(talk.task.text)) return failing(talk, 'The runbook is too long: its end is missing, nothing was run.')
  if (book.steps.length === 0 && !book.mend) return withoutSteps(talk, talk.task, ours)
  const { returned } = talk.task
  if (returned !== null && !book.mend && isRefusal.test(returned))
    return failing(
      talk,
      `It was sent back, and its runbook has no part "If sent back": a person or a model has to mend it. Why it came back: ${returned}`,
    )
  return returned !== null && book.mend
    ? carryOut(talk, book.mend, ours, 'Runbook for what was sent back')
    : carryOut(talk, book.steps, ours, 'Runbook')
}

/** A word about a request, which is no step of the runbook and does not end it. */
const isAside = ({ name, args }: Made): boolean =>
  name === 'request' && (args.action === 'decide' || args.action === 'answer')

/** The answer to whoever asks back: the request is open again for a decision then. */
const noMore =
  'I carry out a runbook and know no more than its text says. What I asked for stands as it is: approve or reject it (a question: answer it).'

/** What is put at the end of a text that was cut for the context. */
const isCut = /\n\(cut after \d+ of \d+ characters; /
/** Doing the same again would come to the same. Anything else (it was released in the middle) is begun anew. */
const isRefusal = /\bconflicts?\b|\bverify failed\b|\brejected\b/i

const carryOut = (talk: Conversation, steps: readonly Step[], ours: readonly Made[], title: string): Reply => {
  const reached = ours.reduce((most, call) => Math.max(most, Number(stepOf(call.id))), 0)
  for (let i = reached; i < steps.length; i++) {
    const step = steps[i] as Step
    const now = progress(
      step,
      ours.filter(call => stepOf(call.id) === i),
      talk.decisions,
    )
    if (now.at === 'waiting') return { text: waitingFor(now.request) }
    if (now.at === 'failed') return failing(talk, `Step ${i + 1} of ${steps.length}: ${now.reason}`)
    if (now.at === 'done') continue
    if (!talk.tools.has(now.call.name))
      return failing(talk, `Step ${i + 1} of ${steps.length}, ${name(step)}, needs the tool ${now.call.name}.`)
    return calling(talk, i, now.call)
  }
  return calling(talk, 'end', {
    name: 'task',
    args: { action: 'complete', summary: `${title} carried out, ${summary(talk, steps, ours)}` },
  })
}

/** What was done, step by step, from what the tools said. A result that left the context is not vouched for again. */
const summary = (talk: Conversation, steps: readonly Step[], ours: readonly Made[]): string => {
  const facts = steps.map((step, i) => {
    const at = progress(
      step,
      ours.filter(call => stepOf(call.id) === i),
      talk.decisions,
    )
    return at.at === 'done' ? at.fact : `${name(step)} (its result is no longer in the context)`
  })
  return `${facts.length} step${facts.length === 1 ? '' : 's'}: ${facts.join('; ')}.`
}

/** After the last step: complete, commit what was left lying about and complete again, or fail with the reason. */
const close = (talk: Conversation, task: TaskItem, closing: readonly Made[]): Reply => {
  const last = closing.at(-1)
  const complete = closing.findLast(call => call.args.action === 'complete')
  const again = { name: 'task', args: { ...(complete?.args ?? { action: 'complete', summary: '' }) } }
  const tries = closing.filter(call => call.args.action === last?.args.action).length
  const unknown = isInterrupted(last?.result ?? null) && tries < 3
  if (!last || (last.args.action === 'fail' && !unknown)) return { text: epilogue(talk.calls) }
  if (last.args.action === 'fail') return failing(talk, String(last.args.summary))
  if (last.name === 'bash') {
    if (isInterrupted(last.result)) return calling(talk, 'end', again)
    // It may need a permission, and wait for it.
    const step: Step = { line: 0, kind: 'commit', message: task.title }
    const commit = progress(
      step,
      closing.filter(call => call.name === 'bash'),
      talk.decisions,
    )
    if (commit.at === 'waiting') return { text: waitingFor(commit.request) }
    if (commit.at === 'failed') return failing(talk, commit.reason)
    return calling(talk, 'end', commit.at === 'call' ? commit.call : again)
  }
  if (unknown) return calling(talk, 'end', again)
  const left = /uncommitted|not committed|commit them/i.test(last.result ?? '')
  if (left && talk.tools.has('bash') && !closing.some(call => call.name === 'bash'))
    return calling(talk, 'end', { name: 'bash', args: { command: commitCommand(task.title) } })
  return failing(talk, `The claim to be done was refused: ${last.result ?? 'no answer'}`)
}

const waitingFor = (request: string): string => `I wait for the decision on ${request}.`

const calling = (talk: Conversation, step: number | 'end', call: Want): Reply => ({
  call: { id: callId(step, talk.made + 1), ...call },
})

const failing = (talk: Conversation, reason: string): Reply =>
  calling(talk, 'end', { name: 'task', args: { action: 'fail', summary: reason } })

/** Whether the task of these calls ended by one of them. */
const ended = (calls: readonly Made[]): boolean =>
  calls.some(
    call =>
      call.name === 'task' &&
      ['complete', 'fail', 'release'].includes(String(call.args.action)) &&
      !isInterrupted(call.result) &&
      !isError(call.result ?? ''),
  )

const epilogue = (calls: readonly Made[]): string => {
  const last = calls.findLast(call => call.name === 'task')
  const said = String(last?.args.summary ?? '')
  if (isError(last?.result ?? '')) return `${said}\nThe task could not be ended: ${last?.result ?? ''}`.trim()
  return last?.args.action === 'complete' ? `Claimed done. ${said}` : `Given up. ${said}`
}

/** Asks the human once what is to be done: an answer may be the runbook that is missing, and anything else ends the task. */
const withoutSteps = (talk: Conversation, task: TaskItem, ours: readonly Made[]): Reply => {
  if (!talk.tools.has('ask_user')) return failing(talk, noRunbook(task))
  const question: Step = {
    line: 0,
    kind: 'ask',
    // It is in hand while this is asked, and what is in hand cannot be tried again.
    question: `${noRunbook(task, `team task cancel ${task.id}, then `)}\nOr answer with the runbook to carry out (sh blocks, file= blocks); any other answer fails the task.`,
  }
  const calls = ours.filter(call => stepOf(call.id) === 0)
  const asked = progress(question, calls, talk.decisions)
  const said = talk.decisions.get(openedBy(calls.at(-1)?.result ?? '') ?? '') ?? ''
  // The question as a failed step would stand here twice, and push out the reason.
  if (asked.at === 'failed' && said !== '')
    return failing(talk, `No runbook came: ${said.replace(/\([\s\S]*?\) (?=was |expired)/, '')}\n${noRunbook(task)}`)
  const answer = asked.at === 'done' ? said.replace(/^[\s\S]*? was answered by [\w-]+: /, '') : ''
  const book = parseRunbook(answer)
  if (asked.at === 'done' && (book.steps.length === 0 || book.problems.length > 0))
    return failing(talk, `The answer is no runbook: ${book.problems[0] ?? answer}\n${noRunbook(task)}`)
  return carryOut(talk, [question, ...book.steps], ours, 'Runbook of the answer')
}

/** It stands among others in lists, so it names its task first. */
const noRunbook = ({ id, title }: TaskItem, first = ''): string =>
  `Task ${id} "${cut(title, 80)}" has no runbook (no step to carry out), so a model is needed: set OPENAI_API_KEY, or "model" in config.json, ` +
  `start the team again, then: ${first}team task retry ${id}`

const idle = (talk: Conversation): string => {
  const { length } = talk.mail
  if (length === 0) return 'Nothing to do: no task is in my hands.'
  const from = [...new Set(talk.mail)].join(', ')
  return `Read ${length} message${length === 1 ? '' : 's'} from ${from}. I carry out runbooks of tasks only, so nothing was done about ${length === 1 ? 'it' : 'them'}.`
}
