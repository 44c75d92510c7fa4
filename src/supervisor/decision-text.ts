import type { Request, RequestStatus } from '../protocol/request.ts'

/** How a request ended that nobody decided. */
export const undecidedText = (request: Request, by: string): string =>
  request.outcome === 'expired'
    ? 'expired'
    : request.successor === null
      ? `was withdrawn by ${by}`
      : `was superseded by ${request.successor}`

/** What a teammate does after the decision on a command that it wanted to run. */
const after: { readonly [S in RequestStatus]?: string } = {
  approved: '\nRun exactly the same command again: it may run now.',
  rejected: '\nIt may not run. Work on without it.',
}

/** What was decided, why, and what the asker does now, in words for whoever is told. */
export const decisionText = (request: Request): string => {
  const answered = request.type === 'question' && request.status === 'approved'
  const reason = request.reason === null ? '' : `: ${request.reason}`
  const next = request.type === 'permission_request' ? after[request.status] : undefined
  return `${request.id} (${request.title}) was ${answered ? 'answered' : request.status} by ${request.decidedBy}${reason}${next ?? ''}`
}
