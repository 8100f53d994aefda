// The visits of one worker. Each visit is by one of `users` users, who thinks for `thinkMs` on average
// before each operation.
function visit(worker, users, thinkMs) {
    let user = "";
    let step = 0;
    const pause = () => randomExponential(thinkMs);
    return () => {
        step = step % 3 + 1;
        switch (step) {
            case 1:
                user = `user-${random(users)}`;
                return {operation: "log in", key: user, pauseMs: pause()};
            case 2:
                // One user in four puts nothing into the cart.
                if (random(4) === 1) {
                    step = 3;
                }
                return {operation: "read cart", key: `cart-of-${user}`, pauseMs: pause()};
            default:
                return {
                    operation: "put into cart",
                    key: `cart-of-${user}`,
                    value: JSON.stringify({item: random(5000), note: randomText(random(200))}),
                    pauseMs: pause(),
                };
        }
    };
}
