/** What a task can be. Apart from the schemas, so that a command may offer these words without loading them. */
export const taskStatuses = ['pending', 'in_progress', 'completed', 'failed', 'cancelled'] as const
