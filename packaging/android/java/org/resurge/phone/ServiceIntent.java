package org.resurge.phone;

import android.content.Context;
import android.content.Intent;
import java.lang.reflect.InvocationTargetException;

/** The intent that starts the service. Its class is generated in the app's own package, which a build may choose. */
final class ServiceIntent {
    private ServiceIntent() {}

    static Intent of(Context context, String title, String text, String argument) {
        try {
            return (Intent)
                    Class.forName(context.getPackageName() + ".ServiceNode")
                            .getMethod(
                                    "getDefaultIntent",
                                    Context.class,
                                    String.class,
                                    String.class,
                                    String.class,
                                    String.class)
                            .invoke(null, context, "", title, text, argument);
        } catch (ClassNotFoundException
                | NoSuchMethodException
                | IllegalAccessException
                | InvocationTargetException broken) {
            throw new IllegalStateException("the APK was built without its service", broken);
        }
    }
}
