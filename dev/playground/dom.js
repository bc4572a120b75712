/** An element; text goes in as text, never as markup, since much of it comes from tokens and answers. */
export function element (name, properties = {}, ...children) {
  const node = document.createElement(name)
  const { className, ...attributes } = properties
  if (className !== undefined) node.className = className
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(key, value)
    else if (value === true) node.setAttribute(key, '')
    else if (value !== false && value !== undefined) node.setAttribute(key, value)
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null))
  return node
}

export const byId = (id) => document.getElementById(id)
